// Learning rate of each step.
#pragma once

#include "config/job_config.hpp"

#include <cstdint>

namespace sluice {

/// Rate of step `step` (from 0) of `steps`: rises linearly over the warm-up, then stays (constant), falls on
/// a straight line (linear) or on half a cosine wave (cosine; Loshchilov & Hutter 2017) to final_factor times
/// the base rate at the last step.
[[nodiscard]] double learning_rate(const ScheduleSettings& schedule, double base_rate, std::int64_t step,
                                   std::int64_t steps);

}  // namespace sluice
