#include "job/prepare/save_plan.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "checkpoint/step_directory.hpp"
#include "job/target_place.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <system_error>
#include <vector>

namespace sluice {
namespace fs = std::filesystem;

std::int64_t saved_step_bytes(std::span<const RankMemory> ranks) {
  return std::accumulate(ranks.begin(), ranks.end(), std::int64_t{0},
                         [](std::int64_t sum, const RankMemory& rank) { return sum + rank.saved; });
}

void require_room_for_steps(const JobConfig& config, std::int64_t step_bytes) {
  const fs::path directory = checkpoint_directory(config);
  require_creatable("checkpoint.path", directory / "step");
  const std::int64_t keep = config.checkpoint.keep;
  const std::int64_t there = std::min(static_cast<std::int64_t>(list_steps(directory).size()), keep);
  const std::int64_t bytes = (keep + 1 - there) * step_bytes;
  std::error_code error;
  const fs::space_info space = fs::space(existing_part(directory), error);
  if (error || space.available >= static_cast<std::uintmax_t>(bytes)) return;
  fail(
      ExitCode::kIo,
      "checkpoint.path: {} saved steps and one in the making take {} more in {}, and the file system has {} free. "
      "Choose another checkpoint.path or a smaller checkpoint.keep; every_minutes = 0 and every_steps = 0 save none",
      keep, format_bytes(bytes), directory.string(),
      format_bytes(static_cast<std::int64_t>(space.available)));
}

std::string save_text(const JobConfig& config, std::int64_t step_bytes) {
  const CheckpointSettings& settings = config.checkpoint;
  std::vector<std::string> intervals;
  if (settings.every_steps > 0) intervals.push_back(fmt::format("every {} steps", settings.every_steps));
  if (settings.every_minutes > 0) intervals.push_back(fmt::format("every {:g} min", settings.every_minutes));
  if (intervals.empty())
    return "no training state: checkpoint.every_steps and checkpoint.every_minutes are 0";
  intervals.emplace_back("at the end");
  return fmt::format("{}: {} each into {}, of which {} are kept", fmt::join(intervals, ", "),
                     format_bytes(step_bytes), checkpoint_directory(config).string(), settings.keep);
}

}  // namespace sluice
