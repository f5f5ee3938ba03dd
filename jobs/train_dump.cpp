#include "train_dump.hpp"

#include "base/log.hpp"
#include "device/copy.hpp"

namespace sluice {

TrainDump::TrainDump(JobContext& context, Trainer& trainer)
    : trainer_(trainer),
      dump_(context.comm, context.blueprint.model.manifest,
            context.directory.new_file(context.config().debug.dump)) {}

StepMetrics TrainDump::first_step(const Batch& batch, double learning_rate) {
  const ShardArena& weights = trainer_.binder().weights();
  dump_.write_tensor("/logits", trainer_.first_logits(batch));
  ShardArena gradients(weights.plan(), weights.rank(), DType::kFloat32, weights.memory(),
                       "gradients for debug.dump", ShardArena::Units::kTrained);
  trainer_.observe_gradients([&](const GradientPart& sums) {
    const std::int64_t first = sums.elements.begin - weights.plan().owned(sums.unit, weights.rank()).begin;
    copy_bytes(gradients.unit_data(sums.unit) + first * size_of(DType::kFloat32), sums.data,
               sums.elements.count() * size_of(DType::kFloat32));
  });
  const StepMetrics metrics = trainer_.step(1, batch, learning_rate);
  trainer_.observe_gradients({});
  dump_.write_scalar("/loss", metrics.loss);
  if (!metrics.expert_tokens.empty()) dump_.write_scalar("/aux_loss", metrics.aux_loss);
  dump_.write_shards("/grad", ArenaValues(gradients));
  return metrics;
}

void TrainDump::write_weights() { dump_.write_shards("/train/final", trainer_.optimizer().master()); }

std::optional<TrainDump> open_dump(JobContext& context, const TrainingState& state, Trainer& trainer) {
  if (context.config().debug.dump.empty()) return std::nullopt;
  if (!state.resumes()) return std::make_optional<TrainDump>(context, trainer);
  if (context.is_root())
    log::warning(
        "debug.dump is not written: it begins with a first step, and this run goes on from a later one");
  return std::nullopt;
}

}  // namespace sluice
