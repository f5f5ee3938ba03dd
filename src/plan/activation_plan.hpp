// What a rank's tokens take while a step is computed. Pure.
#pragma once

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

[[nodiscard]] ActivationBytes plan_activations(const ModelConfig& model, const Workload& work,
                                               const TokenLoad& load);

}  // namespace sluice
