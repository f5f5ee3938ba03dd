// Bias vector that a projection may add to its product.
#pragma once

#include "ops/parameter.hpp"

namespace sluice {

/// x [T, N] plus a bias [N], or x where there is no bias; part of the graph that `anchor` belongs to.
[[nodiscard]] inline at::Tensor biased(const at::Tensor& x, const ops::Parameter& bias,
                                       const at::Tensor& anchor) {
  return bias.value.defined() ? x + ops::in_graph(bias, anchor) : x;
}

}  // namespace sluice
