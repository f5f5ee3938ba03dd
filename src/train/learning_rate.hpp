// Learning rate schedule: the rate of each step.
#pragma once

#include "config/job_config.hpp"

#include <cstdint>

namespace sluice {

struct LearningRateSchedule {
  ScheduleSettings shape{};
  double base_rate = 0;    ///< learning rate after warm-up
  std::int64_t steps = 0;  ///< steps of the whole training

  /// Learning rate of `step` (from 0). It rises linearly over the warm-up, then stays (constant), or falls on
  /// a straight line (linear) or half a cosine wave (cosine; Loshchilov & Hutter 2017) to final_factor times
  /// the base rate at the last step. A training of one step without warm-up uses the base rate.
  [[nodiscard]] double at(std::int64_t step) const;

 private:
  [[nodiscard]] double fall(std::int64_t step) const;
};

}  // namespace sluice
