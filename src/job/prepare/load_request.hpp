// Load request of a job's settings: the same for `run`, `check` and `plan`.
#pragma once

#include "checkpoint/step_directory.hpp"
#include "comm/communicator.hpp"
#include "device/memory.hpp"
#include "job/prepare/blueprint.hpp"
#include "load/checkpoint_load.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// Nodes of the ranks of one set, of those of all.
[[nodiscard]] inline std::span<const int> nodes_of_set(const ShardPlan& shards, std::span<const int> nodes,
                                                       int set) {
  const auto world = static_cast<std::size_t>(shards.world());
  return nodes.subspan(static_cast<std::size_t>(set) * world, world);
}

/// Whether one set of ranks reads model.path and passes it on to the others; otherwise each reads for itself.
[[nodiscard]] inline bool is_passed_on(const JobConfig& config) {
  return config.parallel.replicas > 1 && config.load.readers == Readers::kRank0;
}

/// Request to load model.path into `shards`, which belong to `blueprint`. `nodes`: node of each rank of a set, for
/// load.readers = "node". `memory`: kind of memory of the shards. `left_in_files`: units that are not loaded.
[[nodiscard]] LoadRequest load_request(const Blueprint& blueprint, const ShardPlan& shards,
                                       std::span<const int> nodes, MemoryKind memory,
                                       std::span<const int> left_in_files = {});

/// Collective over `comm`. The checkpoint that `directory` is, as rank 0 reads it; nothing for a Hugging Face
/// directory. Error(kBadData) for an incomplete one.
[[nodiscard]] std::optional<SavedStep> share_saved_step(Communicator& comm,
                                                        const std::filesystem::path& directory);

/// Collective over `comm`: the ranks of a set that reads for itself, or all if one set passes on what it reads. Plan
/// of a job's load into `memory`, from a Hugging Face directory or from `step`, the checkpoint that model.path is, by
/// headers that rank 0 reads. Errors as plan_load().
[[nodiscard]] PlannedLoad plan_weights(Communicator& comm, const Blueprint& blueprint,
                                       const ShardPlan& shards, std::span<const int> nodes, MemoryKind memory,
                                       const std::optional<SavedStep>& step,
                                       std::span<const int> left_in_files = {});

/// Collective over `comm`, all ranks of a run. Where model.path is `step`, a checkpoint of which each host keeps
/// its own part, brings the files that other hosts keep to the disks of its readers. `nodes`: node of each rank. Errors as
/// HeldSteps::read() and bring_files().
void fetch_weights(Communicator& comm, const JobConfig& config, const ShardPlan& shards,
                   std::span<const int> nodes, const std::optional<SavedStep>& step);

/// Options of a job's load: page cache and deadline.
[[nodiscard]] LoadOptions load_options(const JobConfig& config);

/// Bytes of staging on each rank of a set as the plan of its load says, or on each rank of all without a plan at
/// most. 0 if the job draws its weights. `nodes`: node of each rank of all.
[[nodiscard]] std::vector<std::int64_t> planned_staging(const LoadPlan& plan);
[[nodiscard]] std::vector<std::int64_t> largest_staging(const Blueprint& blueprint, const ShardPlan& shards,
                                                        std::span<const int> nodes, MemoryKind memory);

}  // namespace sluice
