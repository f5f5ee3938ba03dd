// The rows of a run's metrics files as one table, read while the run may still write them.
#pragma once

#include "io/hdf5.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A dataset with a row for each step.
struct JoinedColumn {
  std::string name;                   ///< path of the column: "train/loss"
  std::vector<std::int64_t> shape{};  ///< shape of a row, the largest of all segments; empty: a number
  bool is_integer = false;
  std::string units{};

  [[nodiscard]] std::int64_t elements() const;
};

/// Metrics of a run over all of its segments, as one table of steps.
class JoinedMetrics {
 public:
  /// Segments in the order in which they were written, as existing_segments(). Rows of steps that a later
  /// segment trained again are left out. There may be no row yet, or no segment at all, and then there is no
  /// column. Error(kBadData) if one is no metrics file of a training.
  explicit JoinedMetrics(std::span<const std::filesystem::path> segments);

  [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(steps_.size()); }
  [[nodiscard]] const std::vector<std::int64_t>& steps() const { return steps_; }
  /// Without train/step and former names, by name.
  [[nodiscard]] const std::vector<JoinedColumn>& columns() const { return columns_; }
  /// nullptr if there is none of that name.
  [[nodiscard]] const JoinedColumn* find(std::string_view name) const;

  /// Rows [first, first + count), row-major, each of column.elements(). NaN where a segment lacks the column
  /// or a number of its row.
  [[nodiscard]] std::vector<double> read(const JoinedColumn& column, std::int64_t first,
                                         std::int64_t count) const;

  /// Hands over all rows, in pieces of some MiB: the first row of the piece, their number, their values.
  template <class Take>
  void for_pieces(const JoinedColumn& column, Take take) const {
    for (std::int64_t first = 0; first < rows(); first += rows_of_piece(column)) {
      const std::int64_t count = std::min(rows_of_piece(column), rows() - first);
      take(first, count, read(column, first, count));
    }
  }

  /// A text attribute of the last segment; "" if it has none.
  [[nodiscard]] std::string text(const std::string& attribute) const;
  /// When the segment of a row was created, "2026-11-21T15:04:05Z"; "" if it does not say.
  [[nodiscard]] std::string created(std::int64_t row) const;
  /// The first row of each segment that has rows.
  [[nodiscard]] std::vector<std::int64_t> segment_starts() const;

 private:
  struct Segment {
    hdf5::File file;
    std::int64_t first = 0;  ///< first row of the segment in the table
    std::int64_t kept = 0;   ///< rows, from its first
  };
  void find_columns();
  void add_columns(const Segment& segment, const std::string& group);
  [[nodiscard]] const Segment& segment_of(std::int64_t row) const;
  void read_part(const Segment& segment, const JoinedColumn& column, std::int64_t row, std::int64_t count,
                 std::span<double> out) const;
  [[nodiscard]] static std::int64_t rows_of_piece(const JoinedColumn& column);

  std::vector<Segment> segments_;
  std::vector<std::int64_t> steps_;
  std::vector<JoinedColumn> columns_;
};

}  // namespace sluice
