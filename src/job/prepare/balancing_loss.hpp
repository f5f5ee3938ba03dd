// Load balancing of a job: a loss, or correction biases.
#pragma once

#include "config/job_config.hpp"
#include "model/model_config.hpp"

#include <string>

namespace sluice {

/// train.aux_loss_coefficient, or the default of the model's family where the job leaves it to that: 0 for
/// those that are trained without such a loss. Error(kBadConfig) if the job wants one of them all the same.
[[nodiscard]] double balancing_coefficient(const TrainSettings& train, const ModelConfig& model);

/// Settings of the job file that would balance the loads of experts better than these.
[[nodiscard]] std::string balancing_advice(const TrainSettings& train, const ModelConfig& model);

/// Error(kBadConfig) if the job wants a z-loss of a model without routers.
void require_routers(const TrainSettings& train, const ModelConfig& model);

/// Error(kBadConfig) if the job wants the correction biases of a model without any to move, or trains
/// adapters, which have no place for them.
void require_movable_biases(const JobConfig& config, const ModelConfig& model);

}  // namespace sluice
