// Options of a trainer. Needs no LibTorch.
#pragma once

#include "base/optimizer_mode.hpp"
#include "config/choices.hpp"

#include <array>
#include <cstdint>

namespace sluice {

struct OptimizerOptions {
  OptimizerMode mode{};
  std::array<double, 2> betas{0.9, 0.95};  ///< decay rates of the moments, for AdamW and Lion
  double eps = 1e-8;                       ///< AdamW only: added to the square root of the second moment
  double weight_decay = 0;                 ///< weight decay of tensors with two or more dimensions
  /// L2 norm to which all gradients, or with ClipRule::kUnit each matrix's, are clipped; 0: no clipping.
  double max_grad_norm = 0;
  std::uint64_t seed = 0;  ///< seed of stochastic rounding
};

struct TrainerOptions {
  std::int64_t sequence_length = 0;        ///< length of a sequence, tokens
  std::int64_t batch_sequences = 0;        ///< sequences per step over all ranks
  std::int64_t micro_batch_sequences = 0;  ///< sequences per pass of a rank
  Recompute recompute = Recompute::kLayer;
  double aux_loss_coefficient = 0;  ///< 0: no load-balancing loss
  BalancingScope aux_loss_scope = BalancingScope::kModel;
  double router_z_loss = 0;            ///< the z-loss's coefficient; 0: there is none
  double router_bias_update_rate = 0;  ///< change of correction biases after each update
  OptimizerOptions optimizer{};
  double adapter_dropout = 0;      ///< dropout of the inputs of LoRA adapters
  std::uint64_t adapter_seed = 0;  ///< seed of that dropout
  OnNonFinite on_nonfinite = OnNonFinite::kStop;
};

}  // namespace sluice
