// The loops behind swiglu, for matrices whose rows may lie apart (halves of a joint gate-and-up matrix).
// Internal to src/ops.
#pragma once

#include "ops/runtime/gating.hpp"

#include <ATen/core/Tensor.h>

namespace sluice::ops::cpu {

/// out = silu(gate) * up, or what Gating makes of them; all [n, I] of one dtype, elements of a row
/// contiguous, but that gate and up may be the even and the odd columns of one matrix.
void swiglu_rows(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& out,
                 const Gating& gating = {});

/// Gradients of gate and up, which have no limit and lie apart, from that of out.
void swiglu_rows_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& d_out,
                          const at::Tensor& d_gate, const at::Tensor& d_up);

}  // namespace sluice::ops::cpu
