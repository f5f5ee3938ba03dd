#include "report/row_reader.hpp"

#include "base/bytes.hpp"

#include <algorithm>

namespace sluice {

RowReader::RowReader(const JoinedMetrics& metrics) : metrics_(metrics) {
  std::int64_t width = 1;
  for (const JoinedColumn& column : metrics.columns()) width += column.elements();
  piece_rows_ = std::max<std::int64_t>(1, 8 * kMiB / 8 / width);
}

std::span<const double> RowReader::values(std::int64_t row, std::size_t column) {
  if (row < first_ || row >= first_ + count_) read_piece(row);
  const auto width = static_cast<std::size_t>(metrics_.columns()[column].elements());
  return std::span(piece_[column]).subspan(static_cast<std::size_t>(row - first_) * width, width);
}

void RowReader::read_piece(std::int64_t first) {
  first_ = first;
  count_ = std::min(piece_rows_, metrics_.rows() - first);
  piece_.clear();
  for (const JoinedColumn& column : metrics_.columns())
    piece_.push_back(metrics_.read(column, first, count_));
}

}  // namespace sluice
