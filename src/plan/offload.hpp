// Choice of the shards that must lie on a disk for the rest to fit. Pure.
#pragma once

#include "base/dtype.hpp"
#include "plan/workload.hpp"
#include "shard/offload_plan.hpp"
#include "shard/shard_plan.hpp"

#include <cstdint>
#include <span>

namespace sluice {

/// Takes at least `excess` bytes from memory, buffers counted, if there are so many: first the optimizer's
/// state of experts, then their weights, no more layers than it takes and evenly spread, so that the
/// computing of those in memory hides the reading of the others. `state_bytes`: of the optimizer's state of
/// each unit; none for a job that does not train.
[[nodiscard]] OffloadPlan plan_offload(const ShardPlan& shards, std::span<const std::int64_t> state_bytes,
                                       int rank, const Workload& work, std::int64_t excess);

}  // namespace sluice
