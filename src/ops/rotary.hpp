// Rotary position embedding.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops {

/// Which of a head's `dim` entries form pair i of dim / 2, whose entries are rotated together.
enum class RotaryLayout : std::uint8_t {
  kHalves,       ///< pair x[i] and x[i + dim/2]
  kInterleaved,  ///< pair x[2i] and x[2i + 1]
};

/// Rotary table: cosines and sines of each position's angles, float32 [L, dim / 2] each. Computed, never
/// loaded.
struct RotaryTable {
  at::Tensor cos;
  at::Tensor sin;
  RotaryLayout layout = RotaryLayout::kHalves;
};

/// Rotary table of `length` positions on `device`. `frequencies`: radians per position of each pair, float32
/// [dim / 2]; cosines and sines are multiplied by `magnitude`.
[[nodiscard]] RotaryTable make_rotary_table(std::int64_t length, const at::Tensor& frequencies,
                                            double magnitude, RotaryLayout layout = RotaryLayout::kHalves,
                                            at::Device device = at::kCPU);

/// Rotates each pair of the first dim entries of x [b, L, heads, d] by its position's angle and leaves the
/// other entries; results keep the places of the entries that they come from. The table has at least L rows,
/// and dim <= d. Table and products are rounded to x's dtype, as in transformers.
[[nodiscard]] at::Tensor apply_rotary(const at::Tensor& x, const RotaryTable& table);

/// Rows of the table at `positions` [n] (int64), for tokens x [1, n, heads, d].
[[nodiscard]] RotaryTable rotary_rows(const RotaryTable& table, const at::Tensor& positions);

}  // namespace sluice::ops
