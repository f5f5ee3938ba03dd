// The loops of swiglu, for matrices whose rows may be strided (halves of a joint gate-and-up matrix).
// Internal to src/ops.
#pragma once

#include "ops/runtime/gating.hpp"

#include <ATen/core/Tensor.h>

namespace sluice::ops::cpu {

/// Computes out = silu(gate) * up, or the variant that Gating names; all are [n, I] of one dtype with
/// contiguous rows, except that gate and up may be the even and the odd columns of one matrix. Without a gate, `gate`
/// and `up` are one matrix, here and in the gradients.
void swiglu_rows(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& out,
                 const Gating& gating = {});

/// Computes the gradients of gate and up from the gradient of `out`; gate and up do not alternate in one matrix.
void swiglu_rows_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& d_out,
                          const at::Tensor& d_gate, const at::Tensor& d_up, const Gating& gating = {});

}  // namespace sluice::ops::cpu
