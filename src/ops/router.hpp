// Choice of experts for each token.
#pragma once

#include "ops/adapters/low_rank.hpp"

#include <cstdint>

namespace sluice::ops {

/// What the router decided for T tokens.
struct Routing {
  at::Tensor experts;        ///< [T, k] int64, best first
  at::Tensor weights;        ///< [T, k] float32, differentiable
  at::Tensor probabilities;  ///< [T, E] float32, no gradient flows through it
};

struct RouterOptions {
  std::int64_t experts_per_token = 1;
  bool normalize_weights = true;  ///< divide a token's weights by their sum
};

/// The part of a load-balancing loss in the gradient of each token's probabilities.
struct BalanceGrad {
  at::Tensor of_token{};  ///< [E] float32, the same for every token that counts; undefined: none
  at::Tensor counted{};   ///< [T] bool; undefined: all count
};

/// Softmax over x [T, H] times w [E, H], all in float32, and the most probable experts of each token; of
/// equal ones the lower index. `chosen` [T, k], if defined, is the choice of an earlier pass that this one
/// repeats. `balance` is read during backward, so that its gradient may be filled in after the forward
/// pass. A change of w has no dropout.
[[nodiscard]] Routing route(const at::Tensor& x, const Weight& w, const RouterOptions& options,
                            const at::Tensor& chosen = {}, const BalanceGrad& balance = {});

}  // namespace sluice::ops
