#include "ops/buffers/gradients.hpp"

#include "ops/cpu/gradients.hpp"

namespace sluice::ops {

void clear(float* gradients, std::int64_t n) { cpu::clear(gradients, n); }

void add(const float* part, std::int64_t n, float* sum) { cpu::add(part, n, sum); }

void round_to_bfloat16(const float* from, std::int64_t n, std::byte* to) {
  cpu::round_to_bfloat16(from, n, to);
}

double sum_of_squares(const float* x, std::int64_t n) { return cpu::sum_of_squares(x, n); }

double sum_of_squares(const std::byte* x, DType dtype, std::int64_t n) {
  return cpu::sum_of_squares(x, dtype, n);
}

}  // namespace sluice::ops
