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

/// Creates the metrics file on rank 0 and fills /load if there is a report; nothing on other ranks. `header`
/// tells what the job will add at most; the rest of it is filled here.
[[nodiscard]] std::optional<MetricsWriter> open_metrics(JobContext& context,
                                                        const std::optional<LoadReport>& load,
                                                        MetricsHeader header = {});

/// The metrics file of a job that computes. A disk that is full or fails costs rows, not the run: a warning
/// says so once, every later row is tried all the same, and a warning says when one is taken again.
class RunMetrics {
 public:
  /// Opens the metrics file as open_metrics() does, and fails where it does: nothing has been computed yet.
  RunMetrics(JobContext& context, const std::optional<LoadReport>& load, MetricsHeader header);

  /// Whether this rank writes; the others call nothing below.
  [[nodiscard]] explicit operator bool() const { return writer_.has_value(); }

  /// A row that is refused is missing from then on.
  void append(const TrainRow& row);

  /// A sample that is refused is missing.
  void append(const SampleRow& sample);

  /// Documents that are refused stay here, and go ahead of the next ones.
  void append(const std::vector<EvaluationRow>& documents, const EvaluationRow& total);

  /// Closes the file; a warning says what it lacks.
  void close();

  /// Why the file lacks something, or "".
  [[nodiscard]] const std::string& lack() const { return lack_; }

 private:
  bool attempt(const std::function<void()>& write);
  void write_waiting();

  std::optional<MetricsWriter> writer_;
  std::string name_;                   ///< name of the file
  std::deque<EvaluationRow> waiting_;  ///< documents that wait to be written
  std::int64_t missing_ = 0;           ///< steps whose rows are missing
  std::string refusal_;                ///< refusal of the last attempt, or ""
  std::string lack_;
};

}  // namespace sluice
