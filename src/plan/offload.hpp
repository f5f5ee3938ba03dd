// Choice of the shards that must lie on a disk for the rest to fit. Pure.
#pragma once

#include "base/dtype.hpp"
#include "plan/workload.hpp"
#include "shard/offload_plan.hpp"
#include "shard/shard_plan.hpp"
#include "shard/stored/stored_tensors.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Takes at least `excess` bytes from memory, buffers counted, if there are so many: first the optimizer's
/// state of experts, then their weights, no more layers than it takes and evenly spread, so that the
/// computing of those in memory hides the reading of the others. `state_bytes`: of the optimizer's state of
/// each unit; none for a job that does not train.
[[nodiscard]] OffloadPlan plan_offload(const ShardPlan& shards, std::span<const std::int64_t> state_bytes,
                                       int rank, const Workload& work, std::int64_t excess);

/// Number of layers whose stored experts each belong to one rank, so that it can read these where they were
/// published.
[[nodiscard]] int layers_in_files(const ShardPlan& shards);

/// What a rank leaves in the files of the checkpoint: the codes of the stored experts of so many layers,
/// evenly spread. `stored`: the bytes that stored_bytes() tells.
[[nodiscard]] OffloadPlan plan_source(const ShardPlan& shards,
                                      const std::vector<std::vector<StoredBytes>>& stored, int rank,
                                      int layers, const Workload& work);

}  // namespace sluice
