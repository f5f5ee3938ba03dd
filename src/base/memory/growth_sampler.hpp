// Largest growth of this process's memory over a baseline.
#pragma once

#include "base/clock.hpp"
#include "base/memory/memory.hpp"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace sluice {

/// Samples this process's memory now and then, and keeps the highest growth over a baseline, in bytes.
class GrowthSampler {
 public:
  explicit GrowthSampler(const MemorySample& baseline) : baseline_(baseline) { sample(); }
  /// Samples at most every 20 ms, and so is cheap; assumes that shared memory is as at the last sample().
  void tick();
  void look();  ///< samples all but shared memory, at once
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

/// Samples growth on a thread of its own for the lifetime of the object, for work that cannot sample itself.
class GrowthWatch {
 public:
  explicit GrowthWatch(const MemorySample& baseline);
  /// The highest growth so far, in bytes. Samples shared memory too if the last such sample is ten seconds
  /// old, because the kernel walks all page tables for it.
  [[nodiscard]] std::int64_t peak_bytes();

 private:
  std::mutex mutex_;  ///< guards the sampler
  GrowthSampler sampler_;
  Stopwatch since_shared_;
  int shared_samples_ = 0;
  std::condition_variable_any wake_;
  std::jthread thread_;  ///< sampling thread; declared last because it uses the other members
};

}  // namespace sluice
