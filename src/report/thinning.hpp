// Thins many rows to few points, for charts of long runs.
#pragma once

#include "report/joined_metrics.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Rows in groups of equal size, except for a smaller last one.
class Thinning {
 public:
  /// Divides `rows` rows into at most `most` groups; `most` is at least 1.
  Thinning(std::int64_t rows, std::int64_t most)
      : rows_(rows), size_(rows == 0 ? 1 : (rows + most - 1) / most) {}

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int64_t points() const { return (rows_ + size_ - 1) / size_; }
  [[nodiscard]] std::int64_t point_of(std::int64_t row) const { return row / size_; }
  /// Step that stands for each group: that of its middle row.
  [[nodiscard]] std::vector<std::int64_t> steps(std::span<const std::int64_t> steps) const;

 private:
  std::int64_t rows_, size_;
};

/// Statistics of each group; NaN for a group without a finite number.
struct ThinSeries {
  std::vector<double> mean, low, high;
};

/// One series for each number of the column's row.
[[nodiscard]] std::vector<ThinSeries> thin(const JoinedMetrics& metrics, const JoinedColumn& column,
                                           const Thinning& thinning);

}  // namespace sluice
