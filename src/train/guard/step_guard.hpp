// Guard of the steps: which losses are spikes, and how many updates may be skipped.
#pragma once

#include "config/job_config.hpp"
#include "train/guard/recent_median.hpp"

#include <cstdint>
#include <string>

namespace sluice {

/// Decides by the losses of the steps so far, which are the same on every rank, and so alike on every rank. A
/// loss is a spike if it is above guard.spike_factor times the median of the last guard.spike_window losses
/// whose update was made; until there are as many, no loss is a spike.
class StepGuard {
 public:
  explicit StepGuard(const GuardSettings& settings);

  /// The largest loss that is not a spike; infinity while there is no median.
  [[nodiscard]] double spike_limit() const;
  /// The largest loss with which an update is made.
  [[nodiscard]] double largest_loss() const;

  /// Counts a step whose update was made.
  void add_update(double loss);
  /// Counts a step whose update was skipped, for the given reason. Error(kNumerics) if too many in a row were
  /// skipped.
  void add_left_out(std::int64_t step, const std::string& reason);
  /// Counts a step whose batch had no target: it says nothing about the weights, and neither ends nor
  /// lengthens a row of skipped updates.
  void add_without_target() { ++left_out_; }

  [[nodiscard]] std::int64_t left_out() const { return left_out_; }

 private:
  GuardSettings settings_;
  RecentMedian losses_;
  std::int64_t left_out_ = 0;
  std::int64_t in_a_row_ = 0;
};

}  // namespace sluice
