// Guard of a training run: reactions to steps that went wrong, by [guard] of the job file.
#pragma once

#include "job/job.hpp"
#include "job/saving/training_state.hpp"
#include "train/guard/collapse_watch.hpp"
#include "train/guard/step_guard.hpp"
#include "train/trainer.hpp"

#include <cstdint>

namespace sluice {

class TrainGuard {
 public:
  /// All but the options must outlive it.
  TrainGuard(JobContext& context, Trainer& trainer, TrainingState& saved);

  /// Largest loss whose update Trainer::step() may make.
  [[nodiscard]] double largest_loss() const { return guard_.largest_loss(); }

  /// Collective over the context's communicator; after each step, before it is saved. Says what is wrong with
  /// it, and if it was a spike and the job says so, goes back to the last saved step; without one the update
  /// was left out and that is all. Error(kNumerics) after too many such steps in a row; Error(kInternal) if
  /// the ranks do not have the same numbers.
  void after_step(std::int64_t step, const StepMetrics& metrics, double learning_rate);

  /// Says how many updates were left out.
  void finish() const;

 private:
  void warn_of_spike(std::int64_t step, double loss) const;
  /// Says once which layer of the model stays collapsed, and what to set.
  void warn_of_collapse(std::int64_t step, const StepMetrics& metrics);
  void after_left_out(std::int64_t step, const StepMetrics& metrics);
  void compare(std::int64_t step, const StepMetrics& metrics, double learning_rate);

  JobContext& context_;
  Trainer& trainer_;
  TrainingState& saved_;
  StepGuard guard_;
  CollapseWatch collapse_;
};

}  // namespace sluice
