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

  /// Adds documents. As append() of a step.
  void append(const std::vector<EvaluationRow>& documents);

  /// Adds what prompts were answered with. As append() of a step.
  void append(const SampleRow& sample);

  /// Says what all documents so far come to. Error(kIo) as above.
  void write_total(const EvaluationRow& total);

  /// Closes with an error where the destructor could only log.
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
