// What job.kind = "score" writes and prints.
#pragma once

#include "base/clock.hpp"
#include "data/batch_source.hpp"
#include "data/score_file.hpp"
#include "job/job.hpp"
#include "train/evaluator.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace sluice {

/// Output of a score job: rank 0 writes the file of scores and the progress.
class ScoreOutput {
 public:
  /// Collective over the job's ranks. Begins score.file, or goes on with that of an earlier run of the job. `tokens`
  /// must outlive this object. Errors of ScoreWriter on every rank.
  ScoreOutput(JobContext& context, BatchSource& tokens);

  /// Number of sequences whose scores an earlier run has written, the same on every rank.
  [[nodiscard]] std::int64_t sequences_done() const { return sequences_done_; }
  /// Whether an earlier run has finished the job, the same on every rank.
  [[nodiscard]] bool is_complete() const { return is_complete_; }

  /// Collective over the job's ranks. Writes the documents of this batch, which begins with sequence `first`:
  /// each rank's share with the scores of its targets.
  void add(std::int64_t first, const Batch& share, const TokenScores& scores);

  /// Closes the file and prints the totals.
  void finish();

 private:
  void write(std::int64_t sequence, std::span<const TokenMark> marks, std::span<const double> losses,
             std::span<const std::uint8_t> greedy);
  void write(std::int64_t sequence, std::span<const TokenMark> marks, const TokenDistributions& found,
             std::size_t first);
  void tell_progress();

  JobContext& context_;
  BatchSource& tokens_;
  std::optional<ScoreWriter> writer_;  ///< writer of the file of scores; rank 0 alone has one
  std::int64_t sequences_done_ = 0;
  bool is_complete_ = false;
  std::int64_t sequences_ = 0;  ///< sequences of the whole job
  std::int64_t begun_at_ = 0;   ///< sequences that were done when this run began
  std::int64_t targets_ = 0;    ///< targets of the documents that this run has written
  Stopwatch watch_;
  double printed_seconds_ = 0;
};

}  // namespace sluice
