// Detects a training on preferences that changes nothing, or that makes chosen answers less and less probable.
#pragma once

#include "train/step_metrics.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

class PreferenceWatch {
 public:
  /// Updates after which the rewards of some pair must differ.
  static constexpr std::int64_t kUpdates = 2;
  /// Steps through which the log-probability of chosen answers falls, from each mean of ten steps to the next.
  static constexpr std::int64_t kSteps = 50;

  enum class Finding : std::uint8_t { kNone, kNoMargin, kFallingLogProb };

  /// Adds a step's preferences. `updates`: whether the step made an update with a learning rate above 0. Returns
  /// each finding once.
  [[nodiscard]] Finding add(const PreferenceMetrics& preferences, bool updates);

 private:
  [[nodiscard]] bool falls() const;

  std::int64_t updates_ = 0;  ///< updates before the step
  bool has_margin_ = false;   ///< whether the rewards of any pair have differed
  bool has_told_margin_ = false, has_told_fall_ = false;
  std::vector<double>
      log_probs_;  ///< mean log-probability of chosen answers in each of the last kSteps steps
};

}  // namespace sluice
