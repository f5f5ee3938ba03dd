#include "ops/buffers/gradients.hpp"

#include "ops/runtime/processor.hpp"

namespace sluice::ops {

void clear(float* gradients, std::int64_t n) { on::clear(gradients, n); }

void add(const float* part, std::int64_t n, float* sum) { on::add(part, n, sum); }

void round_to_bfloat16(const float* from, std::int64_t n, std::byte* to) {
  on::round_to_bfloat16(from, n, to);
}

double sum_of_squares(const float* x, std::int64_t n) { return on::sum_of_squares(x, n); }

double sum_of_squares(const std::byte* x, DType dtype, std::int64_t n) {
  return on::sum_of_squares(x, dtype, n);
}

}  // namespace sluice::ops
