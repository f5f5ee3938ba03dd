// The metrics file of a run.
#pragma once

#include "job/job.hpp"
#include "load/load_report.hpp"
#include "metrics/metrics_writer.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Creates the metrics file on rank 0, and fills /load if there is a report; nothing on other ranks. `header`
/// says how much the job will add at most; its other fields are filled here.
[[nodiscard]] std::optional<MetricsWriter> open_metrics(JobContext& context,
                                                        const std::optional<LoadReport>& load,
                                                        MetricsHeader header = {});

/// Metrics file of a job that computes. A full or failing disk costs rows, not the run: a warning says so
/// once, every later row is tried nevertheless, and a warning says when rows are written again.
class RunMetrics {
 public:
  /// Opens the metrics file as open_metrics() does, and fails where it does: nothing has been computed yet.
  RunMetrics(JobContext& context, const std::optional<LoadReport>& load, MetricsHeader header);

  /// Whether this rank writes the file; other ranks must not call the functions below.
  [[nodiscard]] explicit operator bool() const { return writer_.has_value(); }

  /// Appends a row; it is missing if the write fails.
  void append(const TrainRow& row);

  /// Appends a sample; it is missing if the write fails.
  void append(const SampleRow& sample);

  /// Appends documents; if the write fails they are kept, and written before the next ones.
  void append(const std::vector<EvaluationRow>& documents, const EvaluationRow& total);

  /// Closes the file; a warning says which rows it lacks.
  void close();

  /// Reason why the file lacks rows, or "".
  [[nodiscard]] const std::string& lack() const { return lack_; }

 private:
  bool attempt(const std::function<void()>& write);
  void write_waiting();

  std::optional<MetricsWriter> writer_;
  std::string name_;                   ///< name of the file
  std::deque<EvaluationRow> waiting_;  ///< documents that wait to be written
  std::int64_t missing_ = 0;           ///< number of steps whose rows are missing
  std::string refusal_;                ///< error of the last write, or ""
  std::string lack_;
};

}  // namespace sluice
