#include "machine_limit.hpp"

#include "base/clock.hpp"
#include "base/round.hpp"
#include "ops/cpu/kernel.hpp"
#include "ops/matmul.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

namespace sluice::bench {
namespace {

constexpr double kSeconds = 1.5;
constexpr std::int64_t kFloatBytes = sizeof(float);

/// Between arrays, because a load waits for an earlier store whose address has the same lowest 12 bits.
constexpr std::int64_t kStaggerFloats = 272;

/// Seconds of the fastest call among those that fit into kSeconds, after one that does not count.
template <class Call>
double best_seconds(Call call) {
  call();
  double best = 1e9;
  const Stopwatch whole;
  while (whole.seconds() < kSeconds) {
    const Stopwatch watch;
    call();
    best = std::min(best, watch.seconds());
  }
  return best;
}

/// Calls f(begin, end) on each thread with its part of [0, n).
template <class F>
void share_among_threads(std::int64_t n, F f) {
  const std::int64_t threads = at::get_num_threads();
  at::parallel_for(0, n, divide_up(n, threads), f);
}

/// a, b and c += 0.5 d for elements [begin, end).
SLUICE_VECTOR_CLONES void update(float* __restrict a, float* __restrict b, float* __restrict c,
                                 const float* __restrict d, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    a[i] += 0.5F * d[i];
    b[i] += 0.5F * d[i];
    c[i] += 0.5F * d[i];
  }
}

SLUICE_VECTOR_CLONES float sum(const float* from, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += from[i];
  return sum;
}

}  // namespace

double best_product_rate(std::int64_t n) {
  const at::Tensor a = at::randn({n, n}, at::kFloat).to(at::kBFloat16);
  const at::Tensor b = at::randn({n, n}, at::kFloat).to(at::kBFloat16);
  at::Tensor product = at::mm(a, b);
  const at::Tensor sums = at::empty({n, n}, at::kFloat);
  const double seconds = std::min(best_seconds([&] { at::mm_out(product, a, b); }),
                                  best_seconds([&] { ops::matmul(sums, a, b); }));
  return 2 * std::pow(static_cast<double>(n), 3) / seconds;
}

double best_float_product_rate(std::int64_t n) {
  const at::Tensor a = at::randn({n, n}, at::kFloat), b = at::randn({n, n}, at::kFloat);
  at::Tensor out = at::empty({n, n}, at::kFloat);
  const double seconds =
      std::min(best_seconds([&] { at::mm_out(out, a, b); }), best_seconds([&] { ops::matmul(out, a, b); }));
  return 2 * std::pow(static_cast<double>(n), 3) / seconds;
}

MemoryPasses::MemoryPasses(std::int64_t array_bytes)
    : elements_(array_bytes / kFloatBytes),
      block_(allocate(MemoryKind::kPrivate, 4 * (elements_ + kStaggerFloats) * kFloatBytes,
                      "measuring memory")) {
  auto* next = reinterpret_cast<float*>(block_.data());
  std::fill_n(next, 4 * (elements_ + kStaggerFloats), 1.0F);
  for (float*& array : arrays_) array = std::exchange(next, next + elements_ + kStaggerFloats);
}

void MemoryPasses::copy() {
  share_among_threads(elements_, [this](std::int64_t begin, std::int64_t end) {
    std::memcpy(arrays_[0] + begin, arrays_[1] + begin,
                static_cast<std::size_t>((end - begin) * kFloatBytes));
  });
}

float MemoryPasses::read() {
  std::atomic<float> total = 0;
  share_among_threads(elements_, [&](std::int64_t begin, std::int64_t end) {
    // Four rows at a time, as a product of few rows does: more of memory is under way.
    const std::int64_t quarter = (end - begin) / 4;
    constexpr std::int64_t kPiece = 512;
    float part = 0;
    for (std::int64_t i = 0; i < quarter; i += kPiece)
      for (std::int64_t row = 0; row < 4; ++row)
        part += sum(arrays_[0] + begin + row * quarter + i, std::min(kPiece, quarter - i));
    total += part;
  });
  return total;
}

void MemoryPasses::update() {
  share_among_threads(elements_, [this](std::int64_t begin, std::int64_t end) {
    bench::update(arrays_[0], arrays_[1], arrays_[2], arrays_[3], begin, end);
  });
}

MemoryRates best_memory_rates(int threads, std::int64_t array_bytes) {
  at::set_num_threads(threads);
  MemoryPasses passes(array_bytes);
  return {static_cast<double>(passes.copy_bytes()) / best_seconds([&] { passes.copy(); }),
          static_cast<double>(passes.read_bytes()) / best_seconds([&] { passes.read(); }),
          static_cast<double>(passes.update_bytes()) / best_seconds([&] { passes.update(); })};
}

double best_clock_rate() {
  constexpr std::int64_t kAdditions = 20'000'000;
  std::uint64_t sum = 0;
  const auto count = [&] {
    for (std::int64_t i = 0; i < kAdditions; ++i) {
      sum += 3;
      asm volatile("" : "+r"(sum));  // NOLINT(hicpp-no-assembler): or the loop becomes one product
    }
  };
  return static_cast<double>(kAdditions) / best_seconds(count);
}

}  // namespace sluice::bench
