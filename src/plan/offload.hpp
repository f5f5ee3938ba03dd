// Choice of the shards that must be offloaded to a disk so that the rest fits into memory. Pure.
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

/// Offloads at least `excess` bytes, buffers counted, if there are so many: first the optimizer's state of
/// experts, then their weights, of the least number of layers, evenly spread, so that computing with the
/// layers in memory hides the reads of the others. `state_bytes`: bytes of the optimizer's state of each
/// unit; empty for a job that does not train.
[[nodiscard]] OffloadPlan plan_offload(const ShardPlan& shards, std::span<const std::int64_t> state_bytes,
                                       int rank, const Workload& work, std::int64_t excess);

/// Number of layers whose stored experts each belong to one rank, which can therefore read them from the
/// published files.
[[nodiscard]] int layers_in_files(const ShardPlan& shards);

/// Plans what a rank leaves in the files of the checkpoint: the codes of the stored experts of `layers`
/// layers, evenly spread. `stored`: the bytes that stored_bytes() returns.
[[nodiscard]] OffloadPlan plan_source(const ShardPlan& shards,
                                      const std::vector<std::vector<StoredBytes>>& stored, int rank,
                                      int layers, const Workload& work);

}  // namespace sluice
