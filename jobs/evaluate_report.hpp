// Report of an evaluation: progress lines, a row for each document, and the totals.
#pragma once

#include "base/clock.hpp"
#include "data/batch_source.hpp"
#include "job/job.hpp"
#include "job/run_metrics.hpp"
#include "load/load_report.hpp"
#include "train/document_losses.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

class EvaluateReport {
 public:
  /// Rank 0 creates the metrics file, with room for the documents of `tokens`, and fills /load if there is a
  /// `load`. Other ranks only contribute their losses.
  EvaluateReport(JobContext& context, const std::optional<LoadReport>& load, const BatchSource& tokens);

  /// Collective over the job's ranks. Adds each rank's share of the next batch, with the losses of its
  /// targets. Writes the documents that ended, and the totals.
  void add(const Batch& share, std::span<const double> losses);

  /// Writes the remaining rows, closes the file and prints the totals. Error(kIo), after that, if the file
  /// lacks rows.
  void finish();

 private:
  void write(const std::vector<DocumentLoss>& documents);
  void tell_progress();
  void print_progress();

  Communicator& comm_;
  RunDirectory& directory_;
  RunMetrics metrics_;
  DocumentLosses losses_;
  std::int64_t sequences_;  ///< sequences in the token file
  std::int64_t sequences_done_ = 0;
  Stopwatch watch_;
  double printed_seconds_ = 0;
};

}  // namespace sluice
