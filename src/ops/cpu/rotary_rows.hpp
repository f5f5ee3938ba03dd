// The loops of the rotary position embedding. Internal to src/ops.
#pragma once

#include "ops/rotary.hpp"

namespace sluice::ops::cpu {

/// By a position's angles, or back by them.
enum class Turn : bool { kForward, kBack };

/// y = x [b, L, heads, d] with its heads turned as apply_rotary() says; both dense, of one dtype.
void rotate_heads(const at::Tensor& x, const RotaryTable& table, Turn turn, const at::Tensor& y);

}  // namespace sluice::ops::cpu
