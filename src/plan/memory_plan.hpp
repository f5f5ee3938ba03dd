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

/// Bytes of one rank; what the job's kind does not need is 0. All but batch, activations and runtime are
/// exact, and staging as exact as it was given; a byte of each id of the batch is for marks of documents,
/// whether or not there are any; activations are an upper estimate of what a micro-batch of one layer and the
/// kept layer inputs take. What the process takes before it sees a model comes on top.
struct RankMemory {
  std::int64_t weights = 0;    ///< bytes of the arena, and codes and scales of stored units
  std::int64_t gradients = 0;  ///< shards until the update, or sums of a stage (GradientMemory)
  std::int64_t optimizer = 0;  ///< OptimizerBytes: what weights lack of their master, and moments
  /// Gathered units: those of a stage, the dense unit of the next one, and an expert and a dense unit of
  /// stored ones as numbers.
  std::int64_t gather_buffers = 0;
  std::int64_t gradient_buffer = 0;  ///< float32: a stage, and the one before if that has no experts
  /// Token ids of a step and documents to pack; in an evaluation the losses of its tokens.
  std::int64_t batch = 0;
  std::int64_t cache = 0;        ///< keys, values and states of sequences that are answered
  std::int64_t activations = 0;  ///< activation bytes of the phase with the most
  std::int64_t runtime = 0;      ///< bytes that libraries allocate once they compute, and gaps in the heap
  std::int64_t offload_buffers = 0;  ///< units between memory and disk
  std::int64_t save_buffers = 0;     ///< a unit that is updated while it is saved, and a block of the file
  /// Bytes of staging while loading; freed before the other parts are allocated.
  std::int64_t staging = 0;

  OffloadPlan offload;  ///< weights and optimizer state on a disk, which are not counted above

  std::int64_t saved = 0;  ///< bytes of a checkpoint: trained weights and optimizer state, wherever they lie

  /// Bytes of the forward pass's activations; part of `activations`, if those are not backward's.
  std::int64_t forward_activations = 0;

  [[nodiscard]] std::int64_t load_total() const { return weights + staging; }
  [[nodiscard]] std::int64_t compute_total() const { return standing() + activations; }
  [[nodiscard]] std::int64_t peak() const { return std::max(load_total(), compute_total()); }
  /// Bytes at the peak as far as they are exact: activations are an estimate.
  [[nodiscard]] std::int64_t certain() const { return std::max(load_total(), compute_total() - activations); }
  /// The parts in GPU memory, and those in main memory (tokens, staging of loads and saves), of a rank that
  /// computes on a GPU.
  [[nodiscard]] RankMemory on_gpu() const;
  [[nodiscard]] RankMemory beside_gpu() const;
  /// Bytes of every part with its name, for tables and JSON.
  [[nodiscard]] std::array<std::pair<std::string_view, std::int64_t>, 12> parts() const;
  /// Bytes held at once in each phase of the job; 0 for phases it does not have.
  [[nodiscard]] std::array<std::pair<std::string_view, std::int64_t>, 4> phases() const;

 private:
  /// Bytes that last from the first step on.
  [[nodiscard]] std::int64_t standing() const {
    return weights + gradients + optimizer + gather_buffers + gradient_buffer + batch + cache + runtime +
           offload_buffers + save_buffers;
  }
};

/// One entry per rank of `plan`. `staging_bytes`: the loader's ring on each rank, from LoadPlan where there
/// are files to plan with; 0 where nothing is loaded. `stored`: what stored units of `plan` hold.
[[nodiscard]] std::vector<RankMemory> plan_memory(const ModelConfig& model, const ParameterManifest& manifest,
                                                  const ShardPlan& plan, const StagePlan& stages,
                                                  const Workload& work,
                                                  std::span<const std::int64_t> staging_bytes,
                                                  const StoredTensors& stored = {});

}  // namespace sluice
