// What a rank will need, before it is allocated: closed formulas over the plans. Pure.
#pragma once

#include "config/job_config.hpp"
#include "model/model_config.hpp"
#include "shard/shard_plan.hpp"
#include "shard/stage_plan.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Bytes of one rank; what the job's kind does not need is 0. All but activations are exact; activations are
/// an upper estimate of what a micro-batch of one layer and the kept layer inputs take. The process itself
/// (code, LibTorch, MPI) comes on top.
struct RankMemory {
  std::int64_t weights = 0;          ///< the arena
  std::int64_t gradients = 0;        ///< float32 shards
  std::int64_t optimizer = 0;        ///< master weights and moments
  std::int64_t gather_buffers = 0;   ///< whole units, one slot for each unit of a stage
  std::int64_t gradient_buffer = 0;  ///< float32, the largest stage
  std::int64_t activations = 0;
  std::int64_t staging = 0;  ///< while loading; gone before what follows is there

  [[nodiscard]] std::int64_t load_total() const { return weights + staging; }
  [[nodiscard]] std::int64_t compute_total() const {
    return weights + gradients + optimizer + gather_buffers + gradient_buffer + activations;
  }
  [[nodiscard]] std::int64_t peak() const { return std::max(load_total(), compute_total()); }
  /// Every part with its name, for tables and JSON.
  [[nodiscard]] std::array<std::pair<std::string_view, std::int64_t>, 7> parts() const;
};

/// One entry per rank of `plan`. `staging` counts the loader's ring: `ring_slots` chunks on rank 0, and
/// elsewhere as many chunks only when the files' element type may have to be converted (assumed here).
[[nodiscard]] std::vector<RankMemory> plan_memory(const ModelConfig& model, const ShardPlan& plan,
                                                  const StagePlan& stages, const JobConfig& job,
                                                  int ring_slots);

}  // namespace sluice
