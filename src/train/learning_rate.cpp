#include "train/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sluice {

double LearningRateSchedule::at(std::int64_t step) const {
  if (step < warmup_steps)
    return base_rate * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  if (kind == ScheduleKind::kConstant) return base_rate;
  const std::int64_t span = std::max<std::int64_t>(steps - 1 - warmup_steps, 1);
  const double progress = std::min(1.0, static_cast<double>(step - warmup_steps) / static_cast<double>(span));
  const double remaining =
      kind == ScheduleKind::kLinear ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return base_rate * (final_factor + (1 - final_factor) * remaining);
}

}  // namespace sluice
