// Writes metrics.h5 row by row, so that any tool can open it while the job runs and after it was killed.
#pragma once

#include "io/hdf5.hpp"
#include "metrics/row_table.hpp"
#include "metrics/schema.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace sluice {

/// Writer of metrics.h5, used by rank 0 alone. Move-only.
class MetricsWriter {
 public:
  /// Creates the file, which appears under its name once every dataset and attribute is in it. Error(kIo) if
  /// it exists, if its directory does not, or if the system refuses.
  MetricsWriter(const std::filesystem::path& path, const MetricsHeader& header);

  /// Fills /load, which has "not known" (-1, NaN) before.
  void write_load(const LoadTable& table);

  /// Appends a row. When this returns, the row survives kill -9. Error(kIo) if the disk is full or fails;
  /// earlier rows stay.
  void append(const TrainRow& row);

  /// Appends documents, with the guarantees of append() for a step.
  void append(const std::vector<EvaluationRow>& documents);

  /// Appends answers to prompts, with the guarantees of append() for a step.
  void append(const SampleRow& sample);

  /// Writes the totals over all documents so far. Error(kIo) as append().
  void write_total(const EvaluationRow& total);

  /// Closes the file; throws errors that the destructor could only log.
  void close();

  [[nodiscard]] std::int64_t rows() const { return steps_->rows(); }

 private:
  void create_steps(const MetricsHeader& header);
  void create_load(int world_size);
  void tell_rows() noexcept;
  void create_evaluation(std::int64_t documents);
  void create_samples(const MetricsHeader& header);

  hdf5::File file_;
  std::vector<StepColumn> step_columns_;
  std::optional<RowTable> steps_;
  std::vector<hdf5::Dataset> load_datasets_;
  std::optional<RowTable> documents_;
  std::vector<SampleColumn> sample_columns_;
  std::optional<RowTable> samples_;
  std::vector<hdf5::Dataset> totals_;
};

}  // namespace sluice
