// Activation memory of a rank's tokens while a step is computed. Pure.
#pragma once

#include "manifest/manifest.hpp"
#include "model/model_config.hpp"
#include "plan/workload.hpp"

#include <cstdint>

namespace sluice {

/// Tokens that a rank computes with.
struct TokenLoad {
  std::int64_t own_sequences = 0;    ///< sequences of this rank in a step
  std::int64_t group_ranks = 1;      ///< ranks of an expert-parallel group
  std::int64_t group_sequences = 0;  ///< micro-batches of these ranks taken together, the largest round
};

/// Bytes, estimated from above: what operations keep and pass through at their peak.
struct ActivationBytes {
  std::int64_t forward = 0;
  std::int64_t backward = 0;  ///< 0 if the job does not train
};

/// The trained parameters, as far as activations depend on them; by default all of the model.
struct TrainedParts {
  int lowest_layer = -1;      ///< lowest layer with a backward pass; nothing is kept below it
  std::int64_t low_rank = 0;  ///< elements per token that the adapters of a layer make, at most
  std::int64_t dropped = 0;   ///< elements per token that dropout of an adapter's inputs takes, at most
};
[[nodiscard]] TrainedParts trained_parts(const ParameterManifest& manifest, const Workload& work,
                                         int lowest_layer);

/// Activation bytes of one rank in the forward and the backward pass.
[[nodiscard]] ActivationBytes plan_activations(const ModelConfig& model, const Workload& work,
                                               const TokenLoad& load, const TrainedParts& trained = {});

}  // namespace sluice
