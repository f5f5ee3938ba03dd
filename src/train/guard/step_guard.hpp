// Guard of the steps: which losses are spikes, and how many updates may be skipped.
#pragma once

#include "config/job_config.hpp"
#include "train/guard/recent_median.hpp"

#include <cstdint>
#include <string>

namespace sluice {

/// Knows the losses of the steps so far, which are the same on every rank, and so decides alike on every
/// rank. A loss is a spike if it is above guard.spike_factor times the median of the last guard.spike_window
/// losses of steps whose update was made; before so many there is none.
class StepGuard {
 public:
  explicit StepGuard(const GuardSettings& settings);

  /// The largest loss that is no spike; infinity while there is no median.
  [[nodiscard]] double spike_limit() const;
  /// The largest loss whose update is made.
  [[nodiscard]] double largest_loss() const;

  /// A step whose update was made.
  void add_update(double loss);
  /// One whose update was left out, with the reason. Error(kNumerics) if it is one too many in a row.
  void add_left_out(std::int64_t step, const std::string& reason);
  /// One whose batch had no target: it says nothing of the weights, and neither ends nor lengthens a row.
  void add_without_target() { ++left_out_; }

  [[nodiscard]] std::int64_t left_out() const { return left_out_; }

 private:
  GuardSettings settings_;
  RecentMedian losses_;
  std::int64_t left_out_ = 0;
  std::int64_t in_a_row_ = 0;
};

}  // namespace sluice
