// What a rank will need, before it is allocated: closed formulas over the plans. Pure.
#pragma once

#include "manifest/manifest.hpp"
#include "model/model_config.hpp"
#include "plan/workload.hpp"
#include "shard/offload_plan.hpp"
#include "shard/shard_plan.hpp"
#include "shard/stage_plan.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Bytes of one rank; what the job's kind does not need is 0. All but batch, activations and runtime are
/// exact, and staging as exact as it was given; a byte of each id of the batch is for marks of documents,
/// whether or not there are any; activations are an upper estimate of what a micro-batch of one layer and the
/// kept layer inputs take. What the process takes before it sees a model comes on top.
struct RankMemory {
  std::int64_t weights = 0;    ///< the arena
  std::int64_t gradients = 0;  ///< shards until the update, or sums of a stage (GradientMemory)
  std::int64_t optimizer = 0;  ///< OptimizerBytes: what weights lack of their master, and moments
  std::int64_t gather_buffers =
      0;  ///< units of which it owns a shard: of a stage, and the next one's dense part
  std::int64_t gradient_buffer = 0;  ///< float32: a stage, and the one before if that has no experts
  std::int64_t batch =
      0;  ///< token ids of a step, and documents to pack; in an evaluation the losses of its tokens
  std::int64_t cache = 0;        ///< keys, values and states of sequences that are answered
  std::int64_t activations = 0;  ///< of the phase with the most
  std::int64_t runtime = 0;      ///< what libraries compile and keep once they compute, and gaps in the heap
  std::int64_t offload_buffers = 0;  ///< units between memory and disk
  std::int64_t save_buffers = 0;     ///< a unit that is updated while it is saved, and a block of the file
  std::int64_t staging = 0;          ///< while loading; gone before what follows is there

  OffloadPlan offload;  ///< what of weights and optimizer is not counted above, since it lies on a disk

  std::int64_t saved = 0;  ///< of a saved step: trained weights and the optimizer's state, wherever they lie

  std::int64_t forward_activations = 0;  ///< no part of its own: activations counts it, or backward's

  [[nodiscard]] std::int64_t load_total() const { return weights + staging; }
  [[nodiscard]] std::int64_t compute_total() const { return standing() + activations; }
  [[nodiscard]] std::int64_t peak() const { return std::max(load_total(), compute_total()); }
  /// What it will hold at its peak, as far as it is known exactly: activations are an estimate.
  [[nodiscard]] std::int64_t certain() const { return std::max(load_total(), compute_total() - activations); }
  /// Every part with its name, for tables and JSON.
  [[nodiscard]] std::array<std::pair<std::string_view, std::int64_t>, 12> parts() const;
  /// What is there at once in each phase of the job; 0 for those it does not have.
  [[nodiscard]] std::array<std::pair<std::string_view, std::int64_t>, 4> phases() const;

 private:
  /// What lasts from the first step on.
  [[nodiscard]] std::int64_t standing() const {
    return weights + gradients + optimizer + gather_buffers + gradient_buffer + batch + cache + runtime +
           offload_buffers + save_buffers;
  }
};

/// One entry per rank of `plan`. `staging_bytes`: the loader's ring on each rank, from LoadPlan where there
/// are files to plan with; 0 where nothing is loaded.
[[nodiscard]] std::vector<RankMemory> plan_memory(const ModelConfig& model, const ParameterManifest& manifest,
                                                  const ShardPlan& plan, const StagePlan& stages,
                                                  const Workload& work,
                                                  std::span<const std::int64_t> staging_bytes);

}  // namespace sluice
