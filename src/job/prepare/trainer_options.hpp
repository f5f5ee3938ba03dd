// Options of training from a job's settings.
#pragma once

#include "config/job_config.hpp"
#include "model/architecture.hpp"
#include "train/learning_rate.hpp"
#include "train/trainer_options.hpp"

namespace sluice {

/// Trainer options of the tables [data], [train], [optimizer], [lora] and [guard].
[[nodiscard]] TrainerOptions trainer_options(const JobConfig& config, const ModelDescription& model);

/// Learning-rate schedule of the tables [schedule], [train] and [optimizer].
[[nodiscard]] LearningRateSchedule learning_rate_schedule(const JobConfig& config);

}  // namespace sluice
