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
  float scale = 1;          ///< factor of the weights, normalised or not
  std::int64_t groups = 1;  ///< equally many consecutive experts each, at least scores_per_group of them
  /// Groups, the best ones, that a token chooses its experts from.
  std::int64_t chosen_groups = 1;
  /// Scores whose sum ranks a group: its two largest, or its largest one.
  std::int64_t scores_per_group = 2;
  at::Tensor correction_bias{};  ///< E of float32, added to the scores for the choice alone; undefined: none
};

/// Gradients that a router's own losses add to its tokens.
struct RouterLossGrad {
  at::Tensor of_token{};  ///< [E] float32, to each counted token's probabilities; undefined: nothing
  at::Tensor counted{};   ///< [T] bool: which tokens count; undefined: all do
  /// A z-loss adds z_scale * log(sum(exp(logits))) * softmax(logits) to the logits' gradient, that of
  /// z_scale / 2 * log(sum(exp(logits)))^2 (Zoph et al. 2022, "ST-MoE", eq. 5); 0: there is none.
  float z_scale = 0;
};

}  // namespace sluice::ops
