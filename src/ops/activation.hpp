// Gated activation of the feed-forward blocks.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops {

/// SwiGLU: silu(gate) * up for two tensors of one shape and dtype; computed in float32, rounded once.
[[nodiscard]] at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace sluice::ops
