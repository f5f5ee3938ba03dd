// The loss on tokens that are held out of a training, every so many steps.
#pragma once

#include "data/batch_source.hpp"
#include "job/job.hpp"
#include "train/stage_binder.hpp"

#include <cstdint>
#include <deque>
#include <filesystem>
#include <limits>
#include <vector>

namespace sluice {

inline constexpr double kNotEvaluated = std::numeric_limits<double>::quiet_NaN();

/// Mean cross-entropy in nats, the same on every rank; kNotEvaluated where nothing was.
struct HeldOutLoss {
  std::vector<double> files;   ///< loss of each file of evaluate.tokens
  double all = kNotEvaluated;  ///< loss over the targets of all files
};

class HeldOut {
 public:
  /// Collective over the context's communicator. Opens `token_files`, those of evaluate.tokens, if
  /// evaluate.every_steps is not 0, and looks at all of their ids. Errors of BatchSource.
  HeldOut(JobContext& context, const std::vector<std::filesystem::path>& token_files);

  /// Files that are evaluated.
  [[nodiscard]] std::int64_t files() const { return std::ssize(sources_); }

  /// Collective over the context's communicator, between steps. Evaluates with the weights of `binder` if it
  /// is time to. Nothing that training reads is changed.
  [[nodiscard]] HeldOutLoss after_step(std::int64_t step, StageBinder& binder);

 private:
  struct Sum {
    double loss = 0;
    double targets = 0;
  };
  [[nodiscard]] Sum evaluate(BatchSource& source, StageBinder& binder) const;

  JobContext& context_;
  std::deque<BatchSource> sources_;
};

}  // namespace sluice
