// Loops over flat gradients. Internal to src/ops.
#pragma once

#include "base/dtype.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice::ops::cpu {

/// Loops of ops::clear(), ops::add(), ops::round_to_bfloat16() and ops::sum_of_squares() on this processor.
void clear(float* gradients, std::int64_t n);
void add(const float* part, std::int64_t n, float* sum);
void round_to_bfloat16(const float* from, std::int64_t n, std::byte* to);
[[nodiscard]] double sum_of_squares(const float* x, std::int64_t n);
[[nodiscard]] double sum_of_squares(const std::byte* x, DType dtype, std::int64_t n);

}  // namespace sluice::ops::cpu
