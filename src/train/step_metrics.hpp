// What a train step tells. Needs no LibTorch.
#pragma once

#include "train/phase_timer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// Why a step has made no update.
enum class LeftOut : std::uint8_t { kNo, kNonFinite, kSpike, kNoTarget };

/// Results of a step; the same on every rank, but for the phases.
struct StepMetrics {
  double loss = 0;          ///< mean cross-entropy over all targets of the step, in nats
  double grad_norm = 0;     ///< global L2 norm before clipping
  double aux_loss = 0;      ///< load-balancing loss, without its coefficient; 0 where the model has none
  double z_loss = 0;        ///< z-loss of the routers' logits, without its coefficient; 0 where that is 0
  std::int64_t tokens = 0;  ///< inputs that are no padding
  /// Bytes sent by all ranks together, up to the last reduction of this count.
  std::int64_t communicated_bytes = 0;
  std::vector<std::int64_t> expert_tokens;  ///< [MoE layers x experts]: tokens times k that chose each expert
  PhaseSeconds phase_seconds{};
  LeftOut left_out = LeftOut::kNo;
  std::string finding{};  ///< why: "loss nan, first in the output of layer 2", or ""
};

}  // namespace sluice
