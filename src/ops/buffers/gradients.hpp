// Flat gradients, float32 unless a function says otherwise. The arrays of one call lie all in main memory or
// all in the device's.
#pragma once

#include "base/dtype.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice::ops {

/// Writes n zeros, with all threads: some buffers are as large as the embedding.
void clear(float* gradients, std::int64_t n);

/// Adds n elements: sum += part.
void add(const float* part, std::int64_t n, float* sum);

/// Rounds n float32 elements to the nearest bfloat16, ties to even.
void round_to_bfloat16(const float* from, std::int64_t n, std::byte* to);

/// Sum of x^2 over n elements, in float64; the order of additions does not depend on the number of threads.
[[nodiscard]] double sum_of_squares(const float* x, std::int64_t n);
/// Sum of squares of n elements of type kFloat32 or kBFloat16.
[[nodiscard]] double sum_of_squares(const std::byte* x, DType dtype, std::int64_t n);

}  // namespace sluice::ops
