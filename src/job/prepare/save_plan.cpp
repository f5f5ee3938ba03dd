#include "job/prepare/save_plan.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "checkpoint/step_directory.hpp"
#include "job/prepare/target_place.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace sluice {
namespace fs = std::filesystem;

std::int64_t saved_step_bytes(std::span<const RankMemory> ranks) {
  return std::accumulate(ranks.begin(), ranks.end(), std::int64_t{0},
                         [](std::int64_t sum, const RankMemory& rank) { return sum + rank.saved; });
}

std::int64_t partner_copies(const JobConfig& config) {
  return config.parallel.replicas > 1 ? 0 : config.checkpoint.partner_copies;
}

std::vector<std::int64_t> step_bytes_of_disks(std::span<const RankMemory> ranks, const RankDisks& disks,
                                              std::int64_t partner_copies, const ParallelDims& dims) {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(disks.count()));
  for (int rank = 0; rank < disks.world(); ++rank) {
    if (disks.has_earlier_counterpart(rank, dims.world)) continue;
    const std::int64_t saved = ranks[static_cast<std::size_t>(dims.member(rank))].saved;
    bytes[static_cast<std::size_t>(disks.of(rank))] += saved;
    if (partner_copies > 0) bytes[static_cast<std::size_t>(disks.of(disks.partner(rank)))] += saved;
  }
  return bytes;
}

std::string hosts_text(std::span<const std::int64_t> step_bytes, const JobConfig& config) {
  const char* const others = config.parallel.replicas > 1 ? ", and every copy of the model saves"
                             : partner_copies(config) > 0 ? ", with a copy on another"
                                                          : " alone";
  return fmt::format("each rank's file is on its own host{}: at most {} a step on one", others,
                     format_bytes(*std::ranges::max_element(step_bytes)));
}

void require_room_for_steps(const JobConfig& config, std::int64_t step_bytes) {
  const fs::path directory = checkpoint_directory(config);
  require_creatable("checkpoint.path", directory / "step");
  const std::int64_t keep = config.checkpoint.keep;
  const std::int64_t there = std::min(static_cast<std::int64_t>(list_steps(directory).size()), keep);
  const std::int64_t bytes = (keep + 1 - there) * step_bytes;
  require_room(
      "checkpoint.path",
      fmt::format("{} and one in the making need, beside those that are there,", counted(keep, "checkpoint")),
      directory, bytes,
      "Choose another checkpoint.path or a smaller checkpoint.keep; every_minutes = 0 and every_steps "
      "= 0 save none");
}

std::string save_text(const JobConfig& config, std::int64_t step_bytes) {
  const CheckpointSettings& settings = config.checkpoint;
  std::vector<std::string> intervals;
  if (settings.every_steps > 0)
    intervals.push_back("every " +
                        (settings.every_steps == 1 ? "step" : counted(settings.every_steps, "step")));
  if (settings.every_minutes > 0) intervals.push_back(fmt::format("every {:g} min", settings.every_minutes));
  if (intervals.empty())
    return "no training state: checkpoint.every_steps and checkpoint.every_minutes are 0";
  intervals.emplace_back("at the end");
  return fmt::format("{}: {} each into {}, of which {} {} kept", fmt::join(intervals, ", "),
                     format_bytes(step_bytes), checkpoint_directory(config).string(), settings.keep,
                     is_or_are(settings.keep));
}

}  // namespace sluice
