// What the machine can do at best, measured: the rates that limit a training step.
#pragma once

#include <cstdint>

namespace sluice::bench {

inline constexpr std::int64_t kProductSize = 2048;

/// FLOP/s of a product of two square matrices of bfloat16 with as many threads as LibTorch was started with:
/// the best of several, 2 n^3 FLOP each, of LibTorch's product and of ours into float32.
[[nodiscard]] double best_product_rate(std::int64_t n = kProductSize);

/// Bytes per second between memory and cores, the best of several passes over arrays of floats.
struct MemoryRates {
  double copy = 0;  ///< b = a: 8 bytes an element
  double update =
      0;  ///< a, b and c += s * d, as an optimizer does: 28 bytes an element, 16 read and 12 written
};

/// Four arrays of `array_bytes` each, allocated as shards are and together far more than the caches hold.
/// Leaves LibTorch with `threads` threads.
[[nodiscard]] MemoryRates best_memory_rates(int threads, std::int64_t array_bytes);

}  // namespace sluice::bench
