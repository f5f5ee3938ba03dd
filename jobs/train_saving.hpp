// What of a training is saved, when it is not lost with a step that fails, and with which weights it begins.
#pragma once

#include "job/job.hpp"
#include "job/saving/training_state.hpp"
#include "job/weights.hpp"
#include "train/trainer.hpp"

#include <cstdint>
#include <functional>

namespace sluice {

/// Collective over the context's communicator. The weights that training begins with: none yet where a saved
/// step brings all of them. What a saved step leaves out, frozen weights, is told to `state`. Errors as
/// make_weights() and TrainingState::set_base().
[[nodiscard]] Weights make_trained_weights(JobContext& context, TrainingState& state);

/// All that this rank keeps from step to step, in the order in which units are updated, as it is saved and
/// restored. All must outlive the result.
[[nodiscard]] SavedTraining saved_training(const JobContext& context, Trainer& trainer,
                                           const ShardArena& weights);

/// Makes a step. If that ends with Error(kNumerics) the `done` steps before it are saved first, as far as
/// they are sound: such numbers are found on all ranks alike, and before anything is updated, unless
/// gradients are released. What made the step fail is what is thrown.
StepMetrics saving_before_failure(const JobContext& context, TrainingState& state, std::int64_t done,
                                  const std::function<StepMetrics()>& step);

/// Gives up what is being saved before weights and optimizer go, of which a thread may still be saving
/// something.
class SavesEnd {
 public:
  explicit SavesEnd(TrainingState& state) : state_(state) {}
  ~SavesEnd() { state_.give_up(); }
  SavesEnd(const SavesEnd&) = delete;
  SavesEnd& operator=(const SavesEnd&) = delete;

 private:
  TrainingState& state_;
};

/// What the plan says that a step waits for its disk, in seconds, on the rank that waits longest and with the
/// slowest disk that a step may be waiting for.
[[nodiscard]] double planned_disk_seconds(const JobContext& context);

}  // namespace sluice
