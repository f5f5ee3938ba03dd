// What a rank's tokens take while a step is computed. Pure.
#pragma once

#include "manifest/manifest.hpp"
#include "model/model_config.hpp"
#include "plan/workload.hpp"

#include <cstdint>

namespace sluice {

/// Tokens that a rank computes with.
struct TokenLoad {
  std::int64_t own_sequences = 0;    ///< of the step, on this rank
  std::int64_t group_ranks = 1;      ///< that have all experts between them
  std::int64_t group_sequences = 0;  ///< micro-batches of these ranks taken together, the largest round
};

/// Bytes, estimated from above: what operations keep and pass through at their peak.
struct ActivationBytes {
  std::int64_t forward = 0;
  std::int64_t backward = 0;  ///< 0 if the job does not train
};

/// What training changes, as far as activations depend on it: all of the model, unless it says otherwise.
struct TrainedParts {
  int lowest_layer = -1;      ///< below it nothing is kept, and there is no backward pass
  std::int64_t low_rank = 0;  ///< elements of a token that adapters of a layer make, at most
  std::int64_t dropped = 0;   ///< of the widest input of an adapter with dropout
};
[[nodiscard]] TrainedParts trained_parts(const ParameterManifest& manifest, int lowest_layer, bool drops);

[[nodiscard]] ActivationBytes plan_activations(const ModelConfig& model, const Workload& work,
                                               const TokenLoad& load, const TrainedParts& trained = {});

}  // namespace sluice
