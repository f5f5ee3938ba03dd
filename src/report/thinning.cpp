#include "report/thinning.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Adds a number to a group of a series; `count` is how many the group has.
void add(double value, std::int64_t point, ThinSeries& series, std::vector<std::int64_t>& counts) {
  if (!std::isfinite(value)) return;
  const auto at = static_cast<std::size_t>(point);
  const auto count = static_cast<double>(++counts[at]);
  if (counts[at] == 1) series.mean[at] = series.low[at] = series.high[at] = value;
  series.mean[at] += (value - series.mean[at]) / count;
  series.low[at] = std::min(series.low[at], value);
  series.high[at] = std::max(series.high[at], value);
}

}  // namespace

std::vector<std::int64_t> Thinning::steps(std::span<const std::int64_t> steps) const {
  std::vector<std::int64_t> middle;
  for (std::int64_t first = 0; first < rows_; first += size_)
    middle.push_back(steps[static_cast<std::size_t>(first + (std::min(size_, rows_ - first) - 1) / 2)]);
  return middle;
}

std::vector<ThinSeries> thin(const JoinedMetrics& metrics, const JoinedColumn& column,
                             const Thinning& thinning) {
  const auto points = static_cast<std::size_t>(thinning.points());
  const auto width = static_cast<std::size_t>(column.elements());
  const std::vector<double> none(points, kNone);
  std::vector<ThinSeries> series(width, {none, none, none});
  std::vector<std::vector<std::int64_t>> counts(width, std::vector<std::int64_t>(points));
  metrics.for_pieces(column, [&](std::int64_t first, std::int64_t count, const std::vector<double>& values) {
    for (std::int64_t row = 0; row < count; ++row)
      for (std::size_t i = 0; i < width; ++i)
        add(values[static_cast<std::size_t>(row) * width + i], thinning.point_of(first + row), series[i],
            counts[i]);
  });
  return series;
}

}  // namespace sluice
