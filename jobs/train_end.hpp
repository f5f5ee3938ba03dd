// End of a training: what an earlier run has finished, and the export.
#pragma once

#include "job/job.hpp"
#include "job/saving/training_state.hpp"
#include "train/trainer.hpp"

#include <cstdint>

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

}  // namespace sluice
