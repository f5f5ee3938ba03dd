// The loops of the rotary position embedding. Internal to src/ops.
#pragma once

#include "ops/rotary.hpp"
#include "ops/runtime/processor_types.hpp"

namespace sluice::ops::cpu {

/// Computes y = x [b, L, heads, d] with its heads rotated as apply_rotary() says; both are dense, of one
/// dtype.
void rotate_heads(const at::Tensor& x, const RotaryTable& table, Turn turn, const at::Tensor& y);

}  // namespace sluice::ops::cpu
