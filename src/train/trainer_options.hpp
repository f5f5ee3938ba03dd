// What a trainer is told of its job. Needs no LibTorch.
#pragma once

#include "config/choices.hpp"

#include <array>
#include <cstdint>

namespace sluice {

/// Loshchilov & Hutter 2019.
struct AdamWOptions {
  std::array<double, 2> betas{};  ///< decay rates of the two moments
  double eps = 0;                 ///< added to the root of the second moment
  double weight_decay = 0;        ///< of tensors with two or more dimensions
};

struct TrainerOptions {
  std::int64_t sequence_length = 0;        ///< tokens
  std::int64_t batch_sequences = 0;        ///< of a step, over all ranks
  std::int64_t micro_batch_sequences = 0;  ///< that a rank computes at once
  Recompute recompute = Recompute::kLayer;
  double aux_loss_coefficient = 0;  ///< 0: no load-balancing loss
  double max_grad_norm = 0;         ///< 0: no clipping
  AdamWOptions optimizer{};
};

}  // namespace sluice
