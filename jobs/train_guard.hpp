// Guard of a training run: reactions to faulty steps, as [guard] of the job file says.
#pragma once

#include "job/job.hpp"
#include "job/saving/training_state.hpp"
#include "train/guard/collapse_watch.hpp"
#include "train/guard/preference_watch.hpp"
#include "train/guard/step_guard.hpp"
#include "train/trainer.hpp"

#include <cstdint>

namespace sluice {

class TrainGuard {
 public:
  /// All arguments except the options must outlive the guard.
  TrainGuard(JobContext& context, Trainer& trainer, TrainingState& saved);

  /// Largest loss with which Trainer::step() may make the update.
  [[nodiscard]] double largest_loss() const { return guard_.largest_loss(); }

  /// Collective over the context's communicator; called after each step, before it is saved. Prints what is
  /// wrong with the step. After a spike goes back to the last checkpoint if the job says so and there is one;
  /// else the update was skipped. Error(kNumerics) after too many such steps in a row; Error(kInternal) if
  /// the ranks do not have the same numbers.
  void after_step(std::int64_t step, const StepMetrics& metrics, double learning_rate);

  /// Prints how many updates were skipped.
  void finish() const;

 private:
  void warn_of_spike(std::int64_t step, double loss) const;
  /// Prints once which layer of the model stays collapsed, and which settings help.
  void warn_of_collapse(std::int64_t step, const StepMetrics& metrics);
  void warn_of_preferences(std::int64_t step, const StepMetrics& metrics, double learning_rate);
  void after_left_out(std::int64_t step, const StepMetrics& metrics);
  void compare(std::int64_t step, const StepMetrics& metrics, double learning_rate);

  JobContext& context_;
  Trainer& trainer_;
  TrainingState& saved_;
  StepGuard guard_;
  CollapseWatch collapse_;
  PreferenceWatch preferences_;
};

}  // namespace sluice
