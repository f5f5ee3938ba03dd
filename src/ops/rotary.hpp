// Rotary position embedding.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops {

/// Layout of the pairs of a head's dim entries that turn together, pair i of dim / 2.
enum class RotaryLayout : std::uint8_t {
  kHalves,       ///< x[i] and x[i + dim/2]
  kInterleaved,  ///< x[2i] and x[2i + 1]
};

/// Cosines and sines of each position's angles: float32 [L, dim / 2] each. Computed, never loaded.
struct RotaryTable {
  at::Tensor cos;
  at::Tensor sin;
  RotaryLayout layout = RotaryLayout::kHalves;
};

/// `frequencies` float32 [dim / 2], radians per position, of the `dim` entries of a head that turn; cosines
/// and sines are multiplied with `magnitude`.
[[nodiscard]] RotaryTable make_rotary_table(std::int64_t length, const at::Tensor& frequencies,
                                            double magnitude, RotaryLayout layout = RotaryLayout::kHalves);

/// Rotates each pair of the first dim entries of x [b, L, heads, d] by its position's angle, each result in
/// the place of what it was made of, and leaves the other entries; the table has at least L rows, and dim <=
/// d. Table and products are rounded to x's dtype, as transformers does it.
[[nodiscard]] at::Tensor apply_rotary(const at::Tensor& x, const RotaryTable& table);

/// The table's rows at `positions` [n] (int64), for tokens x [1, n, heads, d] at these places.
[[nodiscard]] RotaryTable rotary_rows(const RotaryTable& table, const at::Tensor& positions);

}  // namespace sluice::ops
