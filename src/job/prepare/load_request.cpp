#include "job/prepare/load_request.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "checkpoint/hosts/renew_copies.hpp"
#include "checkpoint/saved_weights.hpp"
#include "checkpoint/step_directory.hpp"
#include "comm/run_together.hpp"
#include "device/memory.hpp"
#include "process/console.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace sluice {
namespace {

ReaderAssignment assign_readers(Readers readers, std::span<const int> nodes) {
  const int world = static_cast<int>(nodes.size());
  switch (readers) {
    case Readers::kNode:
      return ReaderAssignment::node(nodes);
    case Readers::kAll:
      return ReaderAssignment::all(world);
    case Readers::kRank0:
      break;
  }
  return ReaderAssignment::rank0(world);
}

/// Tensors of `units`, ascending.
std::vector<int> tensors_of(const ShardPlan& shards, std::span<const int> units) {
  std::vector<int> tensors;
  for (const int unit : units)
    for (const Placement& placement : shards.layouts().units[static_cast<std::size_t>(unit)].placements())
      tensors.push_back(placement.tensor);
  std::ranges::sort(tensors);
  return tensors;
}

CachePolicy cache_policy(const LoadSettings& load) {
  const bool leaves_none = load.page_cache == CachePolicy::kAuto && load.unified_memory;
  return leaves_none ? CachePolicy::kDrop : load.page_cache;
}

/// Whether a rank reads files of model.path. `nodes`: node of each rank of all.
bool is_reader(const JobConfig& config, const ShardPlan& shards, std::span<const int> nodes, int rank) {
  const int set = shards.dims().set(rank);
  if (is_passed_on(config) && set > 0) return false;
  return assign_readers(config.load.readers, nodes_of_set(shards, nodes, set))
      .is_reader(shards.dims().member(rank));
}

}  // namespace

LoadRequest load_request(const Blueprint& blueprint, const ShardPlan& shards, std::span<const int> nodes,
                         MemoryKind memory, std::span<const int> left_in_files) {
  const JobConfig& config = blueprint.config;
  return {.directory = config.model.path,
          .keys = blueprint.keys,
          .shards = shards,
          .options = {.arena = config.model.dtype,
                      .chunk_bytes = config.load.chunk_bytes,
                      .readers = assign_readers(config.load.readers, nodes),
                      .on_device = memory == MemoryKind::kDevice,
                      .left_in_files = tensors_of(shards, left_in_files),
                      .stores_plain_experts = config.memory.offload == Offload::kSource,
                      .quantises = is_quantised_by_load(config.model.frozen_format),
                      .has_transposed = blueprint.model.manifest.has_transposed_experts(),
                      .passes_on = is_passed_on(config),
                      .discard = config.load.sink == LoadSink::kDiscard}};
}

std::optional<SavedStep> share_saved_step(Communicator& comm, const std::filesystem::path& directory) {
  const std::string text = share_from_root(
      comm, [&] { return is_saved_step(directory) ? to_manifest(read_saved_step(directory)) : ""; });
  if (text.empty()) return std::nullopt;
  return parse_manifest(text, directory.string());
}

PlannedLoad plan_weights(Communicator& comm, const Blueprint& blueprint, const ShardPlan& shards,
                         std::span<const int> nodes, MemoryKind memory, const std::optional<SavedStep>& step,
                         std::span<const int> left_in_files) {
  const LoadRequest request = load_request(blueprint, shards, nodes, memory, left_in_files);
  if (!step) return plan_load(comm, request);
  return plan_load(comm, request,
                   saved_weights(*step, request.directory, blueprint.model.manifest, request.options.arena));
}

void fetch_weights(Communicator& comm, const JobConfig& config, const ShardPlan& shards,
                   std::span<const int> nodes, const std::optional<SavedStep>& step) {
  const std::filesystem::path directory = config.model.path;
  if (!step || step->hosts.empty()) return;
  const RankDisks disks({nodes.begin(), nodes.end()});
  const HeldStep held = HeldSteps(comm, disks, directory.parent_path()).read({step->step, directory});
  std::vector<MissingFile> missing;
  for (int disk = 0; disk < disks.count(); ++disk) {
    if (std::ranges::none_of(disks.ranks_of(disk),
                             [&](int rank) { return is_reader(config, shards, nodes, rank); }))
      continue;
    for (int file = 0; file < std::ssize(held.holders); ++file)
      if (!std::ranges::binary_search(held.holders[static_cast<std::size_t>(file)], disk))
        missing.push_back({file, disk});
  }
  const std::int64_t bytes = bring_files(comm, held, disks, directory, missing, config.deadline.load_seconds);
  if (bytes > 0 && comm.rank() == 0)
    console::line("fetched   {} of {} to the hosts that read it", format_bytes(bytes), directory.string());
}

LoadOptions load_options(const JobConfig& config) {
  LoadOptions options;
  options.page_cache = cache_policy(config.load);
  options.limit_seconds = config.deadline.load_seconds;
  return options;
}

std::vector<std::int64_t> planned_staging(const LoadPlan& plan) {
  std::vector<std::int64_t> bytes;
  for (int rank = 0; rank < plan.shards().world(); ++rank)
    bytes.push_back(plan.staging_bytes(rank, kRingSlots));
  return bytes;
}

std::vector<std::int64_t> largest_staging(const Blueprint& blueprint, const ShardPlan& shards,
                                          std::span<const int> nodes, MemoryKind memory) {
  std::vector<std::int64_t> bytes(nodes.size(), 0);
  if (blueprint.config.model.init == ModelInit::kRandom) return bytes;
  for (int set = 0; set < shards.dims().replicas; ++set)
    std::ranges::copy(
        staging_limits(shards,
                       load_request(blueprint, shards, nodes_of_set(shards, nodes, set), memory).options,
                       kRingSlots, blueprint.model.config.quantized),
        bytes.begin() + std::ptrdiff_t{set} * shards.world());
  return bytes;
}

}  // namespace sluice
