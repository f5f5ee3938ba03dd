#include "ops/cpu/gradients.hpp"

#include "ops/cpu/kernel.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

namespace sluice::ops::cpu {
namespace {

/// In many sums at once: one alone would wait for each addition before the next.
SLUICE_VECTOR_CLONES double block_sum_of_squares(const float* x, std::int64_t n) {
  constexpr std::int64_t kSums = 64;
  std::array<double, kSums> sums{};
  const std::int64_t whole = n / kSums * kSums;
  for (std::int64_t i = 0; i < whole; i += kSums)
    for (std::int64_t j = 0; j < kSums; ++j) {
      const double value = static_cast<double>(x[i + j]);
      sums[static_cast<std::size_t>(j)] += value * value;
    }
  double sum = 0;
  for (const double part : sums) sum += part;
  for (std::int64_t i = whole; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace

void clear(float* gradients, std::int64_t n) {
  constexpr std::int64_t kGrain = 1 << 18;
  at::parallel_for(0, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::fill_n(gradients + begin, end - begin, 0.0F);
  });
}

void add(const float* part, std::int64_t n, float* sum) {
  std::transform(sum, sum + n, part, sum, std::plus<>());
}

double sum_of_squares(const float* x, std::int64_t n) {
  constexpr std::int64_t kSumBlock = 1 << 16;
  std::vector<double> partial(static_cast<std::size_t>(divide_up(n, kSumBlock)));
  kernel::for_each_block(n, kSumBlock, [&](std::int64_t i, std::int64_t count) {
    partial[static_cast<std::size_t>(i / kSumBlock)] = block_sum_of_squares(x + i, count);
  });
  double sum = 0;
  for (const double part : partial) sum += part;
  return sum;
}

}  // namespace sluice::ops::cpu
