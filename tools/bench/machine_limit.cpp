#include "machine_limit.hpp"

#include "base/clock.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <atomic>

namespace sluice::bench {
namespace {

constexpr int kRounds = 15;

/// Seconds of the fastest of several calls, after one that does not count.
template <class Call>
double best_seconds(Call call) {
  call();
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
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
  at::parallel_for(0, n, (n + threads - 1) / threads, f);
}

std::uint32_t sum(const std::uint32_t* a, std::int64_t begin, std::int64_t end) {
  std::uint32_t total = 0;
  for (std::int64_t i = begin; i < end; ++i) total += a[i];
  return total;
}

void add_scaled(float* __restrict a, const float* __restrict b, float s, std::int64_t begin,
                std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) a[i] += s * b[i];
}

}  // namespace

double best_product_rate(std::int64_t n) {
  const at::Tensor a = at::randn({n, n}, at::kFloat).to(at::kBFloat16);
  const at::Tensor b = at::randn({n, n}, at::kFloat).to(at::kBFloat16);
  at::Tensor product = at::mm(a, b);
  const double size = static_cast<double>(n);
  return 2 * size * size * size / best_seconds([&] { at::mm_out(product, a, b); });
}

MemoryRates best_memory_rates(int threads, std::int64_t array_bytes) {
  at::set_num_threads(threads);
  const std::int64_t n = array_bytes / static_cast<std::int64_t>(sizeof(float));
  const at::Tensor a = at::full({n}, 1.0F);
  const at::Tensor b = at::full({n}, 1.0F);
  // Whole numbers, because a compiler may not reorder a sum of floats into vector code.
  const auto* words = reinterpret_cast<const std::uint32_t*>(a.data_ptr<float>());
  std::atomic<std::uint32_t> total = 0;  // so that no sum can be left out
  const double read = best_seconds([&] {
    share_among_threads(n, [&](std::int64_t begin, std::int64_t end) { total += sum(words, begin, end); });
  });
  const double update = best_seconds([&] {
    share_among_threads(n, [&](std::int64_t begin, std::int64_t end) {
      add_scaled(a.data_ptr<float>(), b.data_ptr<float>(), 0.5F, begin, end);
    });
  });
  const auto bytes = static_cast<double>(n * static_cast<std::int64_t>(sizeof(float)));
  return {bytes / read, 3 * bytes / update};
}

}  // namespace sluice::bench
