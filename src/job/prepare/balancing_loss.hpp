// How much of the load-balancing loss a job optimises.
#pragma once

#include "config/job_config.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// train.aux_loss_coefficient, or the default of the model's family where the job leaves it to that: 0 for those that are
/// trained without such a loss. Error(kBadConfig) if the job wants one of them all the same.
[[nodiscard]] double balancing_coefficient(const TrainSettings& train, const ModelConfig& model);

}  // namespace sluice
