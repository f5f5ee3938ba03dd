// Rows of a run's metrics files as one table, read while the run may still write them.
#pragma once

#include "io/hdf5.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A column: a dataset with a row per step.
struct JoinedColumn {
  std::string name;                   ///< path of the column: "train/loss"
  std::vector<std::int64_t> shape{};  ///< largest row shape of all segments; empty: a number
  bool is_integer = false;
  std::string units{};

  [[nodiscard]] std::int64_t elements() const;
};

/// Metrics of a run over all of its segments, as one table of steps.
class JoinedMetrics {
 public:
  /// Opens segments, in the order in which they were written, as existing_segments() returns them. Rows of
  /// steps that a later segment trained again are left out. There may be no row, or no segment, and then
  /// there is no column. Error(kBadData) if a segment is not the metrics file of a training.
  explicit JoinedMetrics(std::span<const std::filesystem::path> segments);

  [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(steps_.size()); }
  [[nodiscard]] const std::vector<std::int64_t>& steps() const { return steps_; }
  /// Number of rows that are left out.
  [[nodiscard]] std::int64_t replaced_rows() const { return replaced_rows_; }
  /// Columns by name, without train/step and former names.
  [[nodiscard]] const std::vector<JoinedColumn>& columns() const { return columns_; }
  /// Column with this name; null if there is none.
  [[nodiscard]] const JoinedColumn* find(std::string_view name) const;

  /// Rows [first, first + count), row-major, each with column.elements() numbers. NaN if a segment lacks the
  /// column, or a number of its row.
  [[nodiscard]] std::vector<double> read(const JoinedColumn& column, std::int64_t first,
                                         std::int64_t count) const;

  /// Calls a function with all rows in pieces of some MiB: the first row of the piece, the number of rows,
  /// their values.
  template <class Take>
  void for_pieces(const JoinedColumn& column, Take take) const {
    for (std::int64_t first = 0; first < rows(); first += rows_of_piece(column)) {
      const std::int64_t count = std::min(rows_of_piece(column), rows() - first);
      take(first, count, read(column, first, count));
    }
  }

  /// Description of a column, as its first segment has it.
  [[nodiscard]] std::string description(const JoinedColumn& column) const;
  /// File of the last segment. There must be one.
  [[nodiscard]] const hdf5::File& last_file() const { return segments_.back().file; }
  /// Text attribute of the last segment; "" if it has none.
  [[nodiscard]] std::string text(const std::string& attribute) const;
  /// Time at which the segment of a row was created, "2026-11-21T15:04:05Z"; "" if the segment does not tell.
  [[nodiscard]] std::string created(std::int64_t row) const;
  /// First row of each segment that has rows.
  [[nodiscard]] std::vector<std::int64_t> segment_starts() const;

 private:
  struct Segment {
    hdf5::File file;
    std::int64_t first = 0;  ///< first row of the segment in the table
    std::int64_t kept = 0;   ///< number of its rows in the table, from its first
  };
  void find_columns();
  void add_columns(const Segment& segment, const std::string& group);
  [[nodiscard]] const Segment& segment_of(std::int64_t row) const;
  void read_part(const Segment& segment, const JoinedColumn& column, std::int64_t row, std::int64_t count,
                 std::span<double> out) const;
  [[nodiscard]] static std::int64_t rows_of_piece(const JoinedColumn& column);

  std::vector<Segment> segments_;
  std::vector<std::int64_t> steps_;
  std::int64_t replaced_rows_ = 0;
  std::vector<JoinedColumn> columns_;
};

}  // namespace sluice
