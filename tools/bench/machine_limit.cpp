#include "machine_limit.hpp"

#include "base/clock.hpp"
#include "base/round.hpp"
#include "device/memory.hpp"
#include "ops/cpu/kernel.hpp"
#include "ops/matmul.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>

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

MemoryRates best_memory_rates(int threads, std::int64_t array_bytes) {
  at::set_num_threads(threads);
  const std::int64_t n = array_bytes / kFloatBytes;
  const std::int64_t stride = n + kStaggerFloats;
  const MemoryBlock block = allocate(MemoryKind::kPrivate, 4 * stride * kFloatBytes, "measuring memory");
  auto* const first = reinterpret_cast<float*>(block.data());
  std::fill_n(first, 4 * stride, 1.0F);
  const std::array array{first, first + stride, first + 2 * stride, first + 3 * stride};
  const double update_seconds = best_seconds([&] {
    share_among_threads(n, [&](std::int64_t begin, std::int64_t end) {
      update(array[0], array[1], array[2], array[3], begin, end);
    });
  });
  const double copy_seconds = best_seconds([&] {
    share_among_threads(n, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(array[0] + begin, array[1] + begin, static_cast<std::size_t>((end - begin) * kFloatBytes));
    });
  });
  const auto elements = static_cast<double>(n);
  return {8 * elements / copy_seconds, 28 * elements / update_seconds};
}

}  // namespace sluice::bench
