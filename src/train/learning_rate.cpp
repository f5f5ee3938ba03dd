#include "train/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sluice {

double learning_rate(const ScheduleSettings& schedule, double base_rate, std::int64_t step,
                     std::int64_t steps) {
  if (step < schedule.warmup_steps)
    return base_rate * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  if (schedule.kind == ScheduleKind::kConstant) return base_rate;
  const std::int64_t span = std::max<std::int64_t>(steps - 1 - schedule.warmup_steps, 1);
  const double progress =
      std::min(1.0, static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(span));
  const double remaining = schedule.kind == ScheduleKind::kLinear
                               ? 1 - progress
                               : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return base_rate * (schedule.final_factor + (1 - schedule.final_factor) * remaining);
}

}  // namespace sluice
