// Memory plan of a rank before anything is allocated: closed formulas over the plans. Pure.
#pragma once

#include "manifest/manifest.hpp"
#include "model/model_config.hpp"
#include "plan/workload.hpp"
#include "shard/offload_plan.hpp"
#include "shard/shard_plan.hpp"
#include "shard/stage_plan.hpp"
#include "shard/stored/stored_tensors.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Memory plan of one rank, in bytes; 0 for what the job's kind does not need. All parts are exact except
/// batch, activations and runtime, and staging is as exact as it was given. The batch counts a byte per token
/// id for marks of documents, whether or not there are any. Activations are an upper estimate for a
/// micro-batch of one layer and the kept layer inputs. The memory of the process before it sees a model is
/// not counted.
struct RankMemory {
  std::int64_t weights = 0;  ///< bytes of the arena, and of the codes and scales of stored units
  /// bytes of gradient shards until the update, or of the sums of a stage (GradientMemory)
  std::int64_t gradients = 0;
  /// Bytes of OptimizerBytes: the bits that weights lack of their master weights, and moments.
  std::int64_t optimizer = 0;
  /// Bytes of gathered units: those of a stage, the dense unit of the next stage, and one expert and one
  /// dense unit of stored ones, dequantised.
  std::int64_t gather_buffers = 0;
  /// Bytes of dense units that are not trained and stay whole on every rank.
  std::int64_t kept_weights = 0;
  /// Bytes of float32 gradients: of a stage, and of the stage before if that has no experts.
  std::int64_t gradient_buffer = 0;
  /// Bytes of the token ids of a step and of documents to pack; in an evaluation also of the losses of its
  /// tokens.
  std::int64_t batch = 0;
  std::int64_t cache = 0;        ///< bytes of keys, values and states of the sequences that are answered
  std::int64_t activations = 0;  ///< activation bytes in the phase with the most
  std::int64_t runtime = 0;      ///< bytes that libraries allocate when they compute, and gaps in the heap
  std::int64_t offload_buffers = 0;  ///< bytes of units between memory and disk
  /// bytes of a unit that is updated while it is saved, and of a block of the file
  std::int64_t save_buffers = 0;
  /// Bytes of staging during the load; freed before the other parts are allocated.
  std::int64_t staging = 0;

  OffloadPlan offload;  ///< weights and optimizer state that lie on a disk, not counted above

  /// Bytes of a checkpoint: trained weights and optimizer state, in memory or on a disk.
  std::int64_t saved = 0;

  /// Activation bytes of the forward pass; part of `activations` unless backward takes the most.
  std::int64_t forward_activations = 0;

  [[nodiscard]] std::int64_t load_total() const { return weights + staging; }
  [[nodiscard]] std::int64_t compute_total() const { return standing() + activations; }
  [[nodiscard]] std::int64_t peak() const { return std::max(load_total(), compute_total()); }
  /// Bytes at the peak without activations, which are an estimate.
  [[nodiscard]] std::int64_t certain() const { return std::max(load_total(), compute_total() - activations); }
  /// The parts that a rank with a GPU keeps in GPU memory; and those that it keeps in main memory (tokens,
  /// staging of loads and saves).
  [[nodiscard]] RankMemory on_gpu() const;
  [[nodiscard]] RankMemory beside_gpu() const;
  /// Bytes of every part with its name, for tables and JSON.
  [[nodiscard]] std::array<std::pair<std::string_view, std::int64_t>, 13> parts() const;
  /// Bytes held at once in each phase of the job; 0 for phases that the job does not have.
  [[nodiscard]] std::array<std::pair<std::string_view, std::int64_t>, 4> phases() const;

 private:
  /// Bytes that stay allocated from the first step on.
  [[nodiscard]] std::int64_t standing() const {
    return weights + gradients + optimizer + gather_buffers + kept_weights + gradient_buffer + batch + cache +
           runtime + offload_buffers + save_buffers;
  }
};

/// Memory plan of each rank of `plan`. `staging_bytes`: bytes of the loader's ring on each rank, from
/// LoadPlan if there are files to plan with; 0 where nothing is loaded. `stored`: the tensors in stored units
/// of `plan`.
[[nodiscard]] std::vector<RankMemory> plan_memory(const ModelConfig& model, const ParameterManifest& manifest,
                                                  const ShardPlan& plan, const StagePlan& stages,
                                                  const Workload& work,
                                                  std::span<const std::int64_t> staging_bytes,
                                                  const StoredTensors& stored = {});

}  // namespace sluice
