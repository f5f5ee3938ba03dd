// Reads whole rows of a table of metrics, step after step: all columns are read in pieces of the same steps.
#pragma once

#include "report/joined_metrics.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Reads rows of all columns in ascending order, several at a time.
class RowReader {
 public:
  explicit RowReader(const JoinedMetrics& metrics);

  /// Values of one column in a row; columns in the order of JoinedMetrics::columns(). Rows must be asked for
  /// in ascending order; values are valid until the next row is asked for.
  [[nodiscard]] std::span<const double> values(std::int64_t row, std::size_t column);

 private:
  void read_piece(std::int64_t first);

  const JoinedMetrics& metrics_;
  std::int64_t piece_rows_;
  std::int64_t first_ = 0, count_ = 0;
  std::vector<std::vector<double>> piece_;  ///< rows read ahead, one vector per column
};

}  // namespace sluice
