#include "base/growth_sampler.hpp"

#include <algorithm>

namespace sluice {

void GrowthSampler::tick() {
  constexpr double kInterval = 0.02;
  if (since_last_.seconds() < kInterval) return;
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

}  // namespace sluice
