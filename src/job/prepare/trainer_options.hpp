// Options of training from a job's settings, and how it balances the load of experts: by a loss, or by
// correction biases.
#pragma once

#include "config/job_config.hpp"
#include "model/architecture.hpp"
#include "train/learning_rate.hpp"
#include "train/trainer_options.hpp"

#include <string>

namespace sluice {

/// Trainer options of the tables [data], [train], [optimizer], [lora] and [guard].
[[nodiscard]] TrainerOptions trainer_options(const JobConfig& config, const ModelDescription& model);

/// Learning-rate schedule of the tables [schedule], [train] and [optimizer].
[[nodiscard]] LearningRateSchedule learning_rate_schedule(const JobConfig& config);

/// Value of train.aux_loss_coefficient, or the default of the model's family: 0 for families that are trained
/// without a load-balancing loss. Error(kBadConfig) if the job sets one for such a family.
[[nodiscard]] double balancing_coefficient(const TrainSettings& train, const ModelConfig& model);

/// Text with settings that would balance the loads of experts better than the present ones.
[[nodiscard]] std::string balancing_advice(const TrainSettings& train, const ModelConfig& model);

/// Error(kBadConfig) if the job sets a z-loss for a model without routers.
void require_routers(const TrainSettings& train, const ModelConfig& model);

/// Error(kBadConfig) if the job updates correction biases that the model does not have, or trains adapters,
/// which cannot hold them.
void require_movable_biases(const JobConfig& config, const ModelConfig& model);

}  // namespace sluice
