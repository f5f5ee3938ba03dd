// Router: choice of experts for each token.
#pragma once

#include "ops/adapters/lora.hpp"
#include "ops/runtime/router_options.hpp"

#include <cstdint>

namespace sluice::ops {

/// Decision of the router for T tokens.
struct Routing {
  at::Tensor experts;        ///< experts of each token, [T, k] int64; the best one first
  at::Tensor weights;        ///< weights of the chosen experts, [T, k] float32, differentiable
  at::Tensor probabilities;  ///< scores of all experts, [T, E] float32; no gradient flows through them
  /// logits of which the scores are made, [T, E] float32; undefined without a z-loss
  at::Tensor logits{};
  /// Derivative of bounded logits by the products that they are made of, [T, E] float32; undefined without a bound.
  at::Tensor slopes{};
};

/// Routes tokens x [T, H]: logits are x times the transpose of w [E, H] plus `bias` [E], if defined, all in
/// float32; each token takes the experts with the largest corrected scores, of equal ones the lower index.
/// Weights are made of uncorrected scores; the choice has no gradient. `chosen` [T, k], if defined, is the
/// choice of an earlier pass, which is repeated. `losses.of_token` is read during backward, so that it may be
/// filled in after the forward pass. A LoRA adapter of w has no dropout.
[[nodiscard]] Routing route(const at::Tensor& x, const Weight& w, const RouterOptions& options,
                            const at::Tensor& chosen = {}, const RouterLossGrad& losses = {},
                            const Parameter& bias = {});

}  // namespace sluice::ops
