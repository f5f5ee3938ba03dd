// Activation memory of a rank's tokens while a step is computed. Pure.
#pragma once

#include "base/wire_formats.hpp"
#include "manifest/manifest.hpp"
#include "model/model_config.hpp"
#include "plan/workload.hpp"

#include <cstdint>

namespace sluice {

/// Sequences and ranks whose tokens a rank computes with.
struct TokenLoad {
  std::int64_t own_sequences = 0;  ///< sequences of this rank in one step
  std::int64_t group_ranks = 1;    ///< ranks of an expert-parallel group
  /// sequences of the group's micro-batches taken together, in the largest round
  std::int64_t group_sequences = 0;
  TokenFormat tokens = TokenFormat::kDType;  ///< format in which tokens are sent to experts
  /// ranks that have embedding and head between them, and their sequences in one step; 1: ranks gather both
  std::int64_t vocabulary_ranks = 1, vocabulary_sequences = 0;
};

/// Activation bytes at the peak, estimated from above: what operations keep and what passes through them.
struct ActivationBytes {
  std::int64_t forward = 0;
  std::int64_t backward = 0;  ///< bytes in the backward pass; 0 if the job does not train
};

/// What is trained, as far as activations depend on it; by default all of the model.
struct TrainedParts {
  int lowest_layer = -1;      ///< lowest layer with a backward pass; nothing is kept below it
  std::int64_t low_rank = 0;  ///< most elements per token that the adapters of a layer compute
  std::int64_t dropped = 0;   ///< most elements per token that dropout of an adapter's inputs takes
};
[[nodiscard]] TrainedParts trained_parts(const ParameterManifest& manifest, const Workload& work,
                                         int lowest_layer);

/// Activation bytes of one rank in the forward and the backward pass.
[[nodiscard]] ActivationBytes plan_activations(const ModelConfig& model, const Workload& work,
                                               const TokenLoad& load, const TrainedParts& trained = {});

}  // namespace sluice
