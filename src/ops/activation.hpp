// Activations of the feed-forward blocks.
#pragma once

#include "ops/runtime/gating.hpp"

#include <ATen/core/Tensor.h>

namespace sluice::ops {

/// SwiGLU: silu(gate) * up for two tensors of one shape and dtype, or what `gating`, which has a gate, makes of them;
/// computed in float32, rounded once.
[[nodiscard]] at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, const Gating& gating = {});

/// Activation of an MLP without a gate: relu(up)^2 of a matrix; computed in float32, rounded once.
[[nodiscard]] at::Tensor squared_relu(const at::Tensor& up);

}  // namespace sluice::ops
