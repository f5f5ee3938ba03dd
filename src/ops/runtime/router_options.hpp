// Differences between the routers of model families.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops {

/// Function from logits to scores: a softmax over all experts, or a sigmoid of each expert.
enum class RouterScore : std::uint8_t { kSoftmax, kSigmoid };

/// Settings of a router.
struct RouterOptions {
  std::int64_t experts_per_token = 1;
  bool normalize_weights = true;  ///< divide a token's weights by max(their sum, least_sum) + epsilon
  RouterScore score = RouterScore::kSoftmax;
  float epsilon = 0;
  float least_sum = 0;
  float scale = 1;      ///< factor of the weights, after normalisation if there is any
  float logit_cap = 0;  ///< bound c of the logits l, which become c tanh(l / c); 0: none
  bool chooses_by_logits =
      false;  ///< choose the largest logits, not the largest scores that are made of them
  /// number of groups of equally many consecutive experts, at least scores_per_group in each
  std::int64_t groups = 1;
  /// Number of best groups from which a token chooses its experts.
  std::int64_t chosen_groups = 1;
  /// Number of largest scores whose sum ranks a group: 2 or 1.
  std::int64_t scores_per_group = 2;
  /// Correction bias [E] float32, added to the scores for the choice alone; undefined: none.
  at::Tensor correction_bias{};
};

/// Gradients that a router's own losses add for each token.
struct RouterLossGrad {
  /// Added to the gradient of each counted token's probabilities, [E] float32; undefined: nothing is added.
  at::Tensor of_token{};
  at::Tensor counted{};  ///< tokens that count, [T] bool; undefined: all do
  /// Scale of the z-loss: it adds z_scale * log(sum(exp(logits))) * softmax(logits) to the logits' gradient,
  /// the gradient of z_scale / 2 * log(sum(exp(logits)))^2 (Zoph et al. 2022, "ST-MoE", eq. 5); 0: no z-loss.
  float z_scale = 0;
};

}  // namespace sluice::ops
