// How long a training step may take before it counts as stuck.
#pragma once

#include "train/guard/recent_median.hpp"

namespace sluice {

/// The least, or what the plan says that a slow disk takes, or ten times the median of this start's steps,
/// whichever is most; of the first step, which also compiles kernels and takes its memory, five times the
/// larger of the first two.
class StepLimit {
 public:
  /// How many times the least limit the first step's is.
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
