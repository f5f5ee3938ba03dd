// Rotary position embedding, transformers' half-split convention.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops {

/// Cosines and sines of position * theta^(-2i/head_dim): float32 [L, head_dim / 2] each. Computed, never
/// loaded.
struct RotaryTable {
  at::Tensor cos;
  at::Tensor sin;
};

/// `head_dim` is even.
[[nodiscard]] RotaryTable make_rotary_table(std::int64_t length, std::int64_t head_dim, double theta);

/// Rotates each pair (x[i], x[i + d/2]) of x [b, L, heads, d] by its position's angle; the table has at least
/// L rows. Table and products are rounded to x's dtype, as transformers does it.
[[nodiscard]] at::Tensor apply_rotary(const at::Tensor& x, const RotaryTable& table);

}  // namespace sluice::ops
