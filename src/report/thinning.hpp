// Many rows as few points: what a chart of a long run shows.
#pragma once

#include "report/joined_metrics.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Rows in groups of the same size, the last one smaller.
class Thinning {
 public:
  /// Groups of rows, at most `most` groups for `rows` rows; `most` is at least 1.
  Thinning(std::int64_t rows, std::int64_t most)
      : rows_(rows), size_(rows == 0 ? 1 : (rows + most - 1) / most) {}

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int64_t points() const { return (rows_ + size_ - 1) / size_; }
  [[nodiscard]] std::int64_t point_of(std::int64_t row) const { return row / size_; }
  /// The step that stands for each group: of its middle row.
  [[nodiscard]] std::vector<std::int64_t> steps(std::span<const std::int64_t> steps) const;

 private:
  std::int64_t rows_, size_;
};

/// Statistics of each group; NaN where none of its numbers is finite.
struct ThinSeries {
  std::vector<double> mean, low, high;
};

/// One for each number of the column's row.
[[nodiscard]] std::vector<ThinSeries> thin(const JoinedMetrics& metrics, const JoinedColumn& column,
                                           const Thinning& thinning);

}  // namespace sluice
