// Flat gradients, float32. Arrays lie on compute_device().
#pragma once

#include <cstdint>

namespace sluice::ops {

/// Zeros in n elements, all threads at work: some are as large as the embedding.
void clear(float* gradients, std::int64_t n);

/// sum += part, n elements.
void add(const float* part, std::int64_t n, float* sum);

/// Sum of x^2 over n elements, in float64, in an order that does not depend on the number of threads.
[[nodiscard]] double sum_of_squares(const float* x, std::int64_t n);

}  // namespace sluice::ops
