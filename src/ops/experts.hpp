// The experts of a layer, all of them on this rank.
#pragma once

#include "ops/router.hpp"

namespace sluice::ops {

/// Sum over a token's experts e of weight * down[e] swiglu(gate_up[e] x), for x [T, H], gate_up [E, 2I, H]
/// (gate rows, then up rows) and down [E, H, I]: [T, H]. Weights are rounded to x's dtype; a token's
/// contributions are added in float32 in the order of `routing.experts` and rounded once, so the result does
/// not depend on the number of threads. An expert without tokens is neither read nor given a gradient. Keeps
/// x, the order of the rows and their pre-activations for backward.
[[nodiscard]] at::Tensor experts(const at::Tensor& x, const Parameter& gate_up, const Parameter& down,
                                 const Routing& routing);

}  // namespace sluice::ops
