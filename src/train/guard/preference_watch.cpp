#include "train/guard/preference_watch.hpp"

#include <numeric>
#include <utility>

namespace sluice {

PreferenceWatch::Finding PreferenceWatch::add(const PreferenceMetrics& preferences, bool updates) {
  has_margin_ |= preferences.has_margin;
  const bool is_unmoved = updates_ >= kUpdates && !has_margin_;
  updates_ += updates ? 1 : 0;
  log_probs_.push_back(preferences.chosen_log_prob);
  if (std::ssize(log_probs_) > kSteps) log_probs_.erase(log_probs_.begin());
  if (is_unmoved && !std::exchange(has_told_margin_, true)) return Finding::kNoMargin;
  if (!has_told_fall_ && falls()) {
    has_told_fall_ = true;
    return Finding::kFallingLogProb;
  }
  return Finding::kNone;
}

bool PreferenceWatch::falls() const {
  if (std::ssize(log_probs_) < kSteps) return false;
  constexpr std::int64_t kPart = 10;
  const auto sum = [&](std::int64_t first) {
    return std::accumulate(log_probs_.begin() + first, log_probs_.begin() + first + kPart, 0.0);
  };
  for (std::int64_t first = kPart; first < kSteps; first += kPart)
    if (!(sum(first) < sum(first - kPart))) return false;
  return true;
}

}  // namespace sluice
