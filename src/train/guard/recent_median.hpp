// Median of the last few numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

namespace sluice {

class RecentMedian {
 public:
  explicit RecentMedian(std::size_t window) : window_(window) {}

  void add(double value) {
    values_.push_back(value);
    if (values_.size() > window_) values_.pop_front();
  }
  [[nodiscard]] bool is_full() const { return values_.size() == window_; }
  [[nodiscard]] bool empty() const { return values_.empty(); }
  /// Median of the values; the larger middle one if their number is even. Requires a value.
  [[nodiscard]] double value() const {
    std::vector<double> sorted(values_.begin(), values_.end());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }

 private:
  std::size_t window_;
  std::deque<double> values_;
};

}  // namespace sluice
