// Load request of a job's settings: the same for `run`, `check` and `plan`.
#pragma once

#include "device/memory.hpp"
#include "job/prepare/blueprint.hpp"
#include "load/checkpoint_load.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Request to load model.path into `shards`, which belong to `blueprint`. `nodes`: node of each rank, for
/// load.readers = "node". `memory`: kind of memory of the shards. `left_in_files`: units that are not loaded.
[[nodiscard]] LoadRequest load_request(const Blueprint& blueprint, const ShardPlan& shards,
                                       std::span<const int> nodes, MemoryKind memory,
                                       std::span<const int> left_in_files = {});

/// Collective over `comm`. Plan of a job's load into `memory`, from a Hugging Face directory or a checkpoint, by headers
/// that rank 0 reads. In a run, whose ranks `comm` has, files of a checkpoint that other hosts keep are fetched first.
/// Errors as plan_load(), and Error(kBadData) for an incomplete checkpoint.
[[nodiscard]] PlannedLoad plan_weights(Communicator& comm, const Blueprint& blueprint,
                                       const ShardPlan& shards, std::span<const int> nodes, MemoryKind memory,
                                       std::span<const int> left_in_files = {});

/// Options of a job's load: page cache and deadline.
[[nodiscard]] LoadOptions load_options(const JobConfig& config);

/// Bytes of staging on each rank: as the plan of the load says, or without a plan at most. 0 if the job draws
/// its weights.
[[nodiscard]] std::vector<std::int64_t> planned_staging(const LoadPlan& plan);
[[nodiscard]] std::vector<std::int64_t> largest_staging(const Blueprint& blueprint, const ShardPlan& shards,
                                                        std::span<const int> nodes, MemoryKind memory);

}  // namespace sluice
