// Evaluation of the held-out loss during a training.
#pragma once

#include "data/batch_source.hpp"
#include "job/job.hpp"
#include "train/stage_binder.hpp"

#include <cstdint>
#include <deque>
#include <filesystem>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

inline constexpr double kNotEvaluated = std::numeric_limits<double>::quiet_NaN();

/// Held-out losses, of the objective that the job trains for, the same on every rank; kNotEvaluated if there was no
/// evaluation.
struct HeldOutLoss {
  std::vector<double> files;   ///< loss of each file of evaluate.tokens
  double all = kNotEvaluated;  ///< loss over the targets, or pairs, of all files
};

class HeldOut {
 public:
  /// Collective over the context's communicator. Opens `token_files`, those of evaluate.tokens, if
  /// evaluate.every_steps is not 0, and checks all of their ids. Errors of BatchSource.
  HeldOut(JobContext& context, const std::vector<std::filesystem::path>& token_files);

  /// The files that are evaluated.
  [[nodiscard]] std::deque<BatchSource>& sources() { return sources_; }
  /// Number of files that are evaluated.
  [[nodiscard]] std::int64_t files() const { return std::ssize(sources_); }

  /// Collective over the context's communicator, between steps. Evaluates with the weights of `binder` if an
  /// evaluation is due. Changes nothing that training reads.
  [[nodiscard]] HeldOutLoss after_step(std::int64_t step, StageBinder& binder);

 private:
  [[nodiscard]] std::vector<double> evaluate(BatchSource& source, StageBinder& binder) const;
  [[nodiscard]] double loss_of(std::span<const double> sums) const;

  JobContext& context_;
  std::deque<BatchSource> sources_;
};

}  // namespace sluice
