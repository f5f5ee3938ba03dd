// Dump of a training's numbers under the names of a fixture's reference.h5 (debug.dump).
#pragma once

#include "job/job.hpp"
#include "job/saving/training_state.hpp"
#include "train/debug_dump.hpp"
#include "train/trainer.hpp"

#include <optional>

namespace sluice {

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

}  // namespace sluice
