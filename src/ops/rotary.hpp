// Rotary position embedding, transformers' half-split convention.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops {

/// Cosines and sines of each position's angles: float32 [L, dim / 2] each. Computed, never loaded.
struct RotaryTable {
  at::Tensor cos;
  at::Tensor sin;
};

/// `frequencies` float32 [dim / 2], radians per position, of the `dim` entries of a head that turn; cosines
/// and sines are multiplied with `magnitude`.
[[nodiscard]] RotaryTable make_rotary_table(std::int64_t length, const at::Tensor& frequencies,
                                            double magnitude);

/// Rotates each pair (x[i], x[i + dim/2]) of the first dim entries of x [b, L, heads, d] by its position's
/// angle, and leaves the others; the table has at least L rows, and dim <= d. Table and products are rounded
/// to x's dtype, as transformers does it.
[[nodiscard]] at::Tensor apply_rotary(const at::Tensor& x, const RotaryTable& table);

/// The table's rows at `positions` [n] (int64), for tokens x [1, n, heads, d] at these places.
[[nodiscard]] RotaryTable rotary_rows(const RotaryTable& table, const at::Tensor& positions);

}  // namespace sluice::ops
