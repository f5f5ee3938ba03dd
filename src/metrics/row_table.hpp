// Datasets of metrics.h5 that grow together, row by row.
#pragma once

#include "io/hdf5.hpp"
#include "metrics/schema.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// Datasets of a file that grow together, by a row per step.
class RowTable {
 public:
  /// Creates the datasets, empty. `expected_rows`, the most that will be appended, sizes their blocks.
  RowTable(hdf5::File& file, std::vector<Column> columns, std::int64_t expected_rows);

  /// Adds `count` rows to the same file; values[i] are those of column i, row-major. The last column grows
  /// last. When it returns, the rows survive kill -9. Error(kIo) if the disk is full or fails; the rows
  /// before stay, and the next append() takes the place of these.
  void append(hdf5::File& file, std::int64_t count, const std::vector<MetricValues>& values);

  [[nodiscard]] std::int64_t rows() const { return rows_; }

 private:
  struct Growing {
    Column column;
    hdf5::Storage storage;
    hdf5::Dataset dataset;
  };

  void reserve_blocks(hdf5::File& file, std::int64_t count);
  void write_rows(Growing& target, std::int64_t count, const MetricValues& values);
  void drop_unfinished_rows() noexcept;

  std::vector<Growing> datasets_;
  std::int64_t expected_rows_;
  std::int64_t rows_ = 0;
};

/// Writes a column's units and description to its dataset.
void describe(hdf5::File& file, const Column& column);

/// Writes a hyperslab of a dataset.
void write_values(hdf5::Dataset& dataset, const hdf5::Hyperslab& box, const MetricValues& values);

}  // namespace sluice
