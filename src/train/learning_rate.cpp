#include "train/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sluice {

/// Share of the way from the end of the warm-up to the last step that lies behind `step`, 0 to 1; 0 if there
/// is one step alone.
double LearningRateSchedule::fall(std::int64_t step) const {
  if (steps == 1) return 0;
  const std::int64_t way = steps - 1 - shape.warmup_steps;
  return step >= steps - 1 ? 1 : static_cast<double>(step - shape.warmup_steps) / static_cast<double>(way);
}

double LearningRateSchedule::at(std::int64_t step) const {
  if (step < shape.warmup_steps)
    return base_rate * static_cast<double>(step + 1) / static_cast<double>(shape.warmup_steps);
  if (shape.kind == ScheduleKind::kConstant) return base_rate;
  const double progress = fall(step);
  const double remaining =
      shape.kind == ScheduleKind::kLinear ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return base_rate * (shape.final_factor + (1 - shape.final_factor) * remaining);
}

}  // namespace sluice
