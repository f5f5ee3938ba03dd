#include "ops/buffers/gradients.hpp"

#include "ops/cpu/gradients.hpp"

namespace sluice::ops {

void clear(float* gradients, std::int64_t n) { cpu::clear(gradients, n); }

void add(const float* part, std::int64_t n, float* sum) { cpu::add(part, n, sum); }

double sum_of_squares(const float* x, std::int64_t n) { return cpu::sum_of_squares(x, n); }

}  // namespace sluice::ops
