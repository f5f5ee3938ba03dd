// Gated activation of the feed-forward blocks.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops {

/// silu(gate) * up for two tensors of one shape and dtype; float32 inside, rounded once.
[[nodiscard]] at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace sluice::ops
