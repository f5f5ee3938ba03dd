// Writes metrics.h5 row by row, so that any tool can open it while the job runs and after it was killed.
#pragma once

#include "io/hdf5.hpp"
#include "metrics/schema.hpp"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace sluice {

/// Used by rank 0 alone. Move-only.
class MetricsWriter {
 public:
  /// The file appears under its name only once every dataset and attribute is in it. Error(kIo) if it exists
  /// already, if its directory does not, or if the system refuses.
  MetricsWriter(const std::filesystem::path& path, const MetricsHeader& header);

  /// Fills /load, which says "not known" (-1, NaN) until then.
  void write_load(const LoadTable& table);

  /// Adds a row. When it returns, the row survives kill -9. Error(kIo) if the disk is full or fails; the rows
  /// before stay.
  void append(const TrainRow& row);

  /// Closes with an error where the destructor could only log.
  void close();

  [[nodiscard]] std::int64_t rows() const { return rows_; }

 private:
  struct StepDataset {
    StepColumn column;
    std::int64_t block_rows;
    hdf5::Dataset dataset;
  };

  void create_step_datasets(const MetricsHeader& header);
  void create_load_datasets(int world_size);
  void reserve_blocks();
  void write_row(StepDataset& target, const TrainRow& row);
  void drop_unfinished_row();

  hdf5::File file_;
  std::vector<StepDataset> step_datasets_;
  std::vector<hdf5::Dataset> load_datasets_;
  std::int64_t expected_rows_;
  std::int64_t rows_ = 0;
};

}  // namespace sluice
