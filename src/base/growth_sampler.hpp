// How much this process's memory grew at most.
#pragma once

#include "base/clock.hpp"
#include "base/memory.hpp"

#include <cstdint>

namespace sluice {

/// Looks at this process's memory now and then and keeps the highest growth over a baseline.
class GrowthSampler {
 public:
  explicit GrowthSampler(const MemorySample& baseline) : baseline_(baseline) { sample(); }
  /// Cheap: looks every 20 ms, and takes shared memory to be what it was at the last sample().
  void tick();
  void sample();
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }
  [[nodiscard]] std::int64_t peak_pool_bytes() const { return peak_pool_; }

 private:
  void take_latest();
  MemorySample baseline_;
  MemorySample latest_;
  Stopwatch since_last_;
  std::int64_t peak_ = 0;
  std::int64_t peak_pool_ = 0;
};

}  // namespace sluice
