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

/// Collective over `comm`. Fetches files of a checkpoint of which each host saved its own part, so that the
/// disks of its readers have them.
void gather_files(Communicator& comm, const SavedStep& step, const LoadRequest& request,
                  std::span<const int> nodes, double limit_seconds) {
  const RankDisks disks({nodes.begin(), nodes.end()});
  const HeldStep held =
      HeldSteps(comm, disks, request.directory.parent_path()).read({step.step, request.directory});
  std::vector<MissingFile> missing;
  for (int disk = 0; disk < disks.count(); ++disk) {
    if (!request.options.readers.is_reader(disks.first_rank(disk))) continue;
    for (int file = 0; file < std::ssize(held.holders); ++file)
      if (!std::ranges::binary_search(held.holders[static_cast<std::size_t>(file)], disk))
        missing.push_back({file, disk});
  }
  const std::int64_t bytes = bring_files(comm, held, disks, request.directory, missing, limit_seconds);
  if (bytes > 0 && comm.rank() == 0)
    console::line("fetched   {} of {} to the hosts that read it", format_bytes(bytes),
                  request.directory.string());
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

PlannedLoad plan_weights(Communicator& comm, const Blueprint& blueprint, const ShardPlan& shards,
                         std::span<const int> nodes, MemoryKind memory, std::span<const int> left_in_files) {
  const LoadRequest request = load_request(blueprint, shards, nodes, memory, left_in_files);
  const std::string text = share_from_root(comm, [&] {
    return is_saved_step(request.directory) ? to_manifest(read_saved_step(request.directory)) : "";
  });
  if (text.empty()) return plan_load(comm, request);
  const SavedStep step = parse_manifest(text, request.directory.string());
  if (!step.hosts.empty() && shards.dims().replicas > 1)
    fail(
        {ExitCode::kBadConfig, "config.contradiction"},
        "parallel.replicas: found {}, expected 1, because {} is a checkpoint of which each host keeps its own part",
        shards.dims().replicas, request.directory.string());
  if (!step.hosts.empty() && comm.size() == shards.world())
    gather_files(comm, step, request, nodes, blueprint.config.deadline.load_seconds);
  return plan_load(comm, request,
                   saved_weights(step, request.directory, blueprint.model.manifest, request.options.arena));
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
