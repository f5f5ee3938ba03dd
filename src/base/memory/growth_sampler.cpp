#include "base/memory/growth_sampler.hpp"

#include <algorithm>
#include <chrono>
#include <stop_token>

namespace sluice {

void GrowthSampler::tick() {
  constexpr double kInterval = 0.02;
  if (since_last_.seconds() >= kInterval) look();
}

void GrowthSampler::look() {
  latest_.update_private();
  take_latest();
}

void GrowthSampler::sample() {
  latest_ = sample_memory();
  take_latest();
}

void GrowthSampler::take_latest() {
  peak_ = std::max(peak_, latest_.growth_over(baseline_));
  peak_pool_ = std::max(peak_pool_, latest_.pool_growth_over(baseline_));
  since_last_.restart();
}

GrowthWatch::GrowthWatch(const MemorySample& baseline)
    : sampler_(baseline), thread_([this](const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (!stop.stop_requested()) {
          sampler_.tick();
          wake_.wait_for(lock, stop, std::chrono::milliseconds(25), [] { return false; });
        }
      }) {}

std::int64_t GrowthWatch::peak_bytes() {
  constexpr int kFirst = 2;  // number of first steps, in which libraries map shared memory
  constexpr double kInterval = 10;
  const std::scoped_lock lock(mutex_);
  if (shared_samples_ < kFirst || since_shared_.seconds() > kInterval) {
    sampler_.sample();
    ++shared_samples_;
    since_shared_.restart();
  } else {
    sampler_.look();
  }
  return sampler_.peak_bytes();
}

}  // namespace sluice
