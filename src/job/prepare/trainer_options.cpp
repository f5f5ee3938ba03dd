#include "job/prepare/trainer_options.hpp"

#include "job/prepare/balancing_loss.hpp"

namespace sluice {

TrainerOptions trainer_options(const JobConfig& config, const ModelDescription& model) {
  TrainerOptions options{.sequence_length = config.data.sequence_length,
                         .train = config.train,
                         .optimizer = config.optimizer,
                         .adapter_dropout = model.adapters.dropout,
                         .adapter_seed = static_cast<std::uint64_t>(config.lora.seed),
                         .on_nonfinite = config.guard.on_nonfinite};
  options.train.aux_loss_coefficient = balancing_coefficient(config.train, model.config);
  return options;
}

LearningRateSchedule learning_rate_schedule(const JobConfig& config) {
  return {config.schedule, config.optimizer.learning_rate, config.train.steps};
}

}  // namespace sluice
