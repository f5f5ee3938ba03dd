// Time limit of a training step, after which it counts as stuck.
#pragma once

#include "train/guard/recent_median.hpp"

namespace sluice {

/// Limit of a step: deadline.step_seconds, the time that a slow disk needs by the plan, or ten times the
/// median of this start's steps, whichever is most. The first step, which also compiles kernels and allocates
/// memory, has five times the larger of the first two.
class StepLimit {
 public:
  /// Factor of the first step's limit.
  static constexpr double kFirstTimes = 5;

  StepLimit(double least_seconds, double disk_seconds) : least_(std::max(least_seconds, disk_seconds)) {}

  void add(double seconds) { steps_.add(seconds); }

  [[nodiscard]] double seconds() const {
    return steps_.empty() ? kFirstTimes * least_ : std::max(least_, kTimes * steps_.value());
  }

 private:
  static constexpr double kTimes = 10;
  double least_;
  RecentMedian steps_{255};
};

}  // namespace sluice
