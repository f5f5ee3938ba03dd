#include "job/prepare/trainer_options.hpp"

#include "job/prepare/balancing_loss.hpp"

namespace sluice {

TrainerOptions trainer_options(const JobConfig& config, const ModelDescription& model) {
  return {.sequence_length = config.data.sequence_length,
          .batch_sequences = config.train.batch_sequences,
          .micro_batch_sequences = config.train.micro_batch_sequences,
          .recompute = config.train.recompute,
          .aux_loss_coefficient = balancing_coefficient(config.train, model.config),
          .aux_loss_scope = config.train.aux_loss_scope,
          .router_z_loss = config.train.router_z_loss,
          .router_bias_update_rate = config.train.router_bias_update_rate,
          .optimizer = {.mode = config.optimizer.mode(),
                        .betas = config.optimizer.betas,
                        .eps = config.optimizer.eps,
                        .weight_decay = config.optimizer.weight_decay,
                        .max_grad_norm = config.optimizer.max_grad_norm,
                        .seed = static_cast<std::uint64_t>(config.optimizer.seed)},
          .adapter_dropout = model.adapters.dropout,
          .adapter_seed = static_cast<std::uint64_t>(config.lora.seed),
          .on_nonfinite = config.guard.on_nonfinite};
}

StepGuardOptions step_guard_options(const JobConfig& config) {
  return {.on_spike = config.guard.on_spike,
          .spike_factor = config.guard.spike_factor,
          .window = config.guard.spike_window,
          .max_skipped_steps = config.guard.max_skipped_steps};
}

LearningRateSchedule learning_rate_schedule(const JobConfig& config) {
  return {.kind = config.schedule.kind,
          .base_rate = config.optimizer.learning_rate,
          .steps = config.train.steps,
          .warmup_steps = config.schedule.warmup_steps,
          .final_factor = config.schedule.final_factor};
}

}  // namespace sluice
