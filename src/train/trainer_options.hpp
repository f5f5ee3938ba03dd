// What a trainer is told of its job. Needs no LibTorch.
#pragma once

#include "base/optimizer_mode.hpp"
#include "config/choices.hpp"

#include <array>
#include <cstdint>

namespace sluice {

struct OptimizerOptions {
  OptimizerMode mode{};
  std::array<double, 2> betas{0.9, 0.95};  ///< of AdamW and Lion
  double eps = 1e-8;                       ///< of AdamW: added to the root of the second moment
  double weight_decay = 0;                 ///< of tensors with two or more dimensions
  double max_grad_norm = 0;  ///< of all gradients, or with ClipRule::kUnit of a matrix; 0: no clipping
  std::uint64_t seed = 0;    ///< of stochastic rounding
};

struct TrainerOptions {
  std::int64_t sequence_length = 0;        ///< tokens
  std::int64_t batch_sequences = 0;        ///< of a step, over all ranks
  std::int64_t micro_batch_sequences = 0;  ///< that a rank computes at once
  Recompute recompute = Recompute::kLayer;
  double aux_loss_coefficient = 0;  ///< 0: no load-balancing loss
  BalancingScope aux_loss_scope = BalancingScope::kModel;
  double router_z_loss = 0;       ///< the z-loss's coefficient; 0: there is none
  double router_bias_update = 0;  ///< of correction biases, after each update
  OptimizerOptions optimizer{};
  double adapter_dropout = 0;      ///< of what goes into low-rank changes
  std::uint64_t adapter_seed = 0;  ///< of that
  OnNonFinite on_nonfinite = OnNonFinite::kStop;
};

}  // namespace sluice
