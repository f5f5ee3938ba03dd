// The end of a training: what an earlier run has done already, and what is exported.
#pragma once

#include "job/job.hpp"
#include "job/saving/training_state.hpp"
#include "train/trainer.hpp"

#include <cstdint>

namespace sluice {

/// Collective over the context's communicator. Whether an earlier run has done all that the job asks for: its
/// last step is saved, and what it exports was exported. Rank 0 tells it then; else where the job exports to
/// is tried, errors as require_export().
[[nodiscard]] bool is_done_already(JobContext& context, const TrainingState& state);

/// Rank 0 tells that the training is over before train.steps, after `done`.
void tell_of_patience(JobContext& context, const TrainingState& state, std::int64_t done);

/// Collective over the context's communicator. Exports the weights of step `done`, the last one, or of the
/// best step, if the job asks for it.
void export_trained(JobContext& context, TrainingState& state, Trainer& trainer, ShardArena& weights,
                    std::int64_t done);

}  // namespace sluice
