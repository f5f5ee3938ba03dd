// Choice of experts for each token.
#pragma once

#include "ops/adapters/lora.hpp"
#include "ops/runtime/router_options.hpp"

#include <cstdint>

namespace sluice::ops {

/// Decision of the router for T tokens.
struct Routing {
  at::Tensor experts;        ///< [T, k] int64, best first of those that are chosen
  at::Tensor weights;        ///< [T, k] float32, differentiable
  at::Tensor probabilities;  ///< [T, E] float32, the scores; no gradient flows through it
  at::Tensor logits{};       ///< [T, E] float32, what the scores were made of; undefined without a z-loss
};

/// Scores of x [T, H] times w [E, H] plus `bias` [E], if it is defined, all in float32, and of each token the
/// experts with the largest ones after correction, of equal ones the lower index. Weights are made of the
/// scores without correction; the choice has no gradient. `chosen` [T, k], if defined, is the choice of an
/// earlier pass that this one repeats. `losses.of_token` is read during backward, so that it may be filled in
/// after the forward pass. A LoRA adapter of w has no dropout.
[[nodiscard]] Routing route(const at::Tensor& x, const Weight& w, const RouterOptions& options,
                            const at::Tensor& chosen = {}, const RouterLossGrad& losses = {},
                            const Parameter& bias = {});

}  // namespace sluice::ops
