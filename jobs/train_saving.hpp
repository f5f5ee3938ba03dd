// State of a training that is saved, its restoring, and the saving before a failure.
#pragma once

#include "job/job.hpp"
#include "job/saving/training_state.hpp"
#include "job/weights.hpp"
#include "train/trainer.hpp"

#include <cstdint>
#include <functional>

namespace sluice {

/// Collective over the context's communicator. Weights with which training begins; without values if a
/// checkpoint brings all of them, unless the job needs those that it started from. Frozen weights, which checkpoints leave out, are announced to `state`.
/// Errors as make_weights() and TrainingState::set_base().
[[nodiscard]] Weights make_trained_weights(JobContext& context, TrainingState& state, bool needs_start);

/// All state of this rank that lasts from step to step, in the order in which units are updated, for saving
/// and restoring. All arguments must outlive the result.
[[nodiscard]] SavedTraining saved_training(const JobContext& context, Trainer& trainer,
                                           const ShardArena& weights);

/// Makes a step. If it ends with Error(kNumerics), the `done` steps before it are saved first, if they are
/// sound: all ranks find such numbers alike, and before anything is updated, unless gradients are released.
/// Then throws the error of the step.
StepMetrics saving_before_failure(const JobContext& context, TrainingState& state, std::int64_t done,
                                  const std::function<StepMetrics()>& step);

/// Abandons a save in progress before weights and optimizer are freed, from which a thread may still be
/// reading.
class SavesEnd {
 public:
  explicit SavesEnd(TrainingState& state) : state_(state) {}
  ~SavesEnd() { state_.give_up(); }
  SavesEnd(const SavesEnd&) = delete;
  SavesEnd& operator=(const SavesEnd&) = delete;

 private:
  TrainingState& state_;
};

/// Planned seconds that a step waits for its disk, on the rank that waits longest, with the slowest disk for
/// which a step may wait.
[[nodiscard]] double planned_disk_seconds(const JobContext& context);

}  // namespace sluice
