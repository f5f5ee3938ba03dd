#include "ops/cpu/gradients.hpp"

#include "ops/cpu/formats.hpp"
#include "ops/cpu/kernel.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

namespace sluice::ops::cpu {
namespace {

/// Sums squares in many accumulators at once: a single one would wait for each addition before the next.
template <class T>
SLUICE_VECTOR_CLONES double block_sum_of_squares(const T* x, std::int64_t n) {
  constexpr std::int64_t kSums = 64;
  std::array<double, kSums> sums{};
  const std::int64_t whole = n / kSums * kSums;
  for (std::int64_t i = 0; i < whole; i += kSums)
    for (std::int64_t j = 0; j < kSums; ++j) {
      const double value = static_cast<double>(kernel::load(x[i + j]));
      sums[static_cast<std::size_t>(j)] += value * value;
    }
  double sum = 0;
  for (const double part : sums) sum += part;
  for (std::int64_t i = whole; i < n; ++i) {
    const double value = static_cast<double>(kernel::load(x[i]));
    sum += value * value;
  }
  return sum;
}

template <class T>
double parallel_sum_of_squares(const T* x, std::int64_t n) {
  constexpr std::int64_t kSumBlock = 1 << 16;
  std::vector<double> partial(static_cast<std::size_t>(divide_up(n, kSumBlock)));
  kernel::for_each_block(n, kSumBlock, [&](std::int64_t i, std::int64_t count) {
    partial[static_cast<std::size_t>(i / kSumBlock)] = block_sum_of_squares(x + i, count);
  });
  double sum = 0;
  for (const double part : partial) sum += part;
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

void round_to_bfloat16(const float* from, std::int64_t n, std::byte* to) {
  constexpr std::int64_t kBlock = 1 << 14;
  kernel::for_each_block(n, kBlock, [&](std::int64_t i, std::int64_t count) {
    optimizer::write_bfloat16(from + i, count, reinterpret_cast<std::uint16_t*>(to) + i);
  });
}

double sum_of_squares(const float* x, std::int64_t n) { return parallel_sum_of_squares(x, n); }

double sum_of_squares(const std::byte* x, DType dtype, std::int64_t n) {
  if (dtype == DType::kFloat32) return parallel_sum_of_squares(reinterpret_cast<const float*>(x), n);
  SLUICE_ASSERT(dtype == DType::kBFloat16, "sums of squares are not defined for type {}", name_of(dtype));
  return parallel_sum_of_squares(reinterpret_cast<const at::BFloat16*>(x), n);
}

}  // namespace sluice::ops::cpu
