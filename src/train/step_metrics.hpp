// Metrics of a train step. Needs no LibTorch.
#pragma once

#include "train/objective/objective_result.hpp"
#include "train/phase_timer.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Why the update of a step was skipped.
enum class LeftOut : std::uint8_t { kNo, kNonFinite, kSpike, kNoTarget };

/// Metrics of a step; the same on every rank, except for the times of the phases.
struct StepMetrics {
  double loss = 0;  ///< loss of the step's objective: mean cross-entropy of its targets in nats, or of pairs
  double grad_norm = 0;  ///< global L2 norm before clipping
  double aux_loss = 0;   ///< load-balancing loss, without its coefficient; 0 for a model that has none
  /// z-loss of the routers' logits, without its coefficient; 0 where the coefficient is 0
  double z_loss = 0;
  std::int64_t tokens = 0;  ///< input tokens of the step that are not padding
  /// Bytes sent by all ranks together, up to the last reduction that counts them.
  std::int64_t communicated_bytes = 0;
  /// [MoE layers x experts]: tokens (times k) that chose each expert
  std::vector<std::int64_t> expert_tokens;
  std::optional<PreferenceMetrics> preferences{};  ///< preferences, if the job learns these
  std::optional<DistilMetrics> distil{};           ///< parts of the loss, if the job learns from a teacher
  PhaseSeconds phase_seconds{};
  LeftOut left_out = LeftOut::kNo;
  std::string finding{};  ///< why the update was skipped: "loss nan, first in the output of layer 2", or ""
};

}  // namespace sluice
