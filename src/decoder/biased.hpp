// The vector that a projection may have beside its matrix.
#pragma once

#include "ops/parameter.hpp"

namespace sluice {

/// x [T, N] plus a bias [N], if there is one; it is part of the graph that `anchor` belongs to.
[[nodiscard]] inline at::Tensor biased(const at::Tensor& x, const ops::Parameter& bias,
                                       const at::Tensor& anchor) {
  return bias.value.defined() ? x + ops::in_graph(bias, anchor) : x;
}

}  // namespace sluice
