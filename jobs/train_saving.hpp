// What lasts of a training: its state in checkpoints, its export at the end, and the dump of its numbers.
#pragma once

#include "job/job.hpp"
#include "job/saving/training_state.hpp"
#include "job/weights.hpp"
#include "train/debug_dump.hpp"
#include "train/trainer.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace sluice {

/// Collective over the context's communicator. Whether an earlier run has finished the job: its last step is
/// saved, and its export was written; rank 0 prints it. Otherwise the place of the export is tried, with
/// errors as require_export().
[[nodiscard]] bool is_done_already(JobContext& context, const TrainingState& state);

/// Prints on rank 0 that training ended before train.steps, after step `done`.
void tell_of_patience(JobContext& context, const TrainingState& state, std::int64_t done);

/// Collective over the context's communicator. Exports the weights of step `done`, the last one, or of the
/// best checkpoint, if the job asks for an export.
void export_trained(JobContext& context, TrainingState& state, Trainer& trainer, ShardArena& weights,
                    std::int64_t done);

class TrainDump {
 public:
  /// Collective over the context's communicator. Errors of DebugDump. References must outlive the dump.
  TrainDump(JobContext& context, Trainer& trainer);

  /// Collective over the context's communicator. Makes the first step, and writes its logits, loss and
  /// gradients.
  StepMetrics first_step(const Batch& batch, double learning_rate);
  /// Collective over the context's communicator. Writes the weights as they are after the last step.
  void write_weights();

 private:
  Trainer& trainer_;
  DebugDump dump_;
};

/// Collective over the context's communicator. The dump, if the job asks for one and begins with its first
/// step; a resumed run warns.
[[nodiscard]] std::optional<TrainDump> open_dump(JobContext& context, const TrainingState& state,
                                                 Trainer& trainer);

/// Collective over the context's communicator. Weights with which training begins; without values if a
/// checkpoint brings all of them, unless the job needs those that it started from. Frozen weights, which checkpoints
/// leave out, are announced to `state`. Errors as make_weights() and TrainingState::set_base().
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
