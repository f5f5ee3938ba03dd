// What the machine can do at best, measured: the rates that limit a training step.
#pragma once

#include "device/memory.hpp"

#include <array>
#include <cstdint>

namespace sluice::bench {

inline constexpr std::int64_t kProductSize = 2048;

/// FLOP/s of a product of two square matrices of bfloat16 with as many threads as LibTorch was started with:
/// the best of several, 2 n^3 FLOP each, of LibTorch's product and of ours into float32.
[[nodiscard]] double best_product_rate(std::int64_t n = kProductSize);

/// The same of float32, by LibTorch's BLAS.
[[nodiscard]] double best_float_product_rate(std::int64_t n = kProductSize);

/// Passes over four arrays of floats, allocated as shards are. All threads that LibTorch has share a pass.
class MemoryPasses {
 public:
  explicit MemoryPasses(std::int64_t array_bytes);
  void copy();    ///< b = a
  float read();   ///< the sum of a
  void update();  ///< a, b and c += s * d, as an optimizer does

  [[nodiscard]] std::int64_t copy_bytes() const { return 8 * elements_; }
  [[nodiscard]] std::int64_t read_bytes() const { return 4 * elements_; }
  [[nodiscard]] std::int64_t update_bytes() const { return 28 * elements_; }  ///< 16 read and 12 written

 private:
  std::int64_t elements_;
  MemoryBlock block_;
  std::array<float*, 4> arrays_{};
};

/// Bytes per second between memory and cores, the best of several passes.
struct MemoryRates {
  double copy = 0;
  double read = 0;
  double update = 0;
};

/// Of arrays of `array_bytes` each, together far more than the caches hold. Leaves LibTorch with `threads` threads.
[[nodiscard]] MemoryRates best_memory_rates(int threads, std::int64_t array_bytes);

/// Cycles per second of a core at work: of a chain of additions that wait for each other. The best of several.
[[nodiscard]] double best_clock_rate();

}  // namespace sluice::bench
