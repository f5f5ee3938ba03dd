// job.kind = "train": loads or draws the weights, then trains on token sequences.
//
//   mpirun -np 3 sluice run job.toml

#include "base/fault.hpp"
#include "data/batch_source.hpp"
#include "job/console.hpp"
#include "job/export_weights.hpp"
#include "job/job.hpp"
#include "job/prepare/batch_options.hpp"
#include "job/prepare/start_notes.hpp"
#include "job/prepare/trainer_options.hpp"
#include "job/weights.hpp"
#include "ops/runtime/library.hpp"
#include "train/debug_dump.hpp"
#include "train/trainer.hpp"
#include "train_report.hpp"

#include <cstring>
#include <optional>

namespace sluice {
namespace {

std::optional<DebugDump> open_dump(JobContext& context) {
  if (context.config().debug.dump.empty()) return std::nullopt;
  return DebugDump(context.comm, context.blueprint.model.manifest,
                   context.directory.new_file(context.config().debug.dump));
}

/// The first step, with its logits, loss and gradients written down.
StepMetrics dumped_step(DebugDump& dump, Trainer& trainer, const ShardArena& weights, const Batch& batch,
                        double rate) {
  dump.write_tensor("/logits", trainer.first_logits(batch));
  ShardArena gradients(weights.plan(), weights.rank(), DType::kFloat32, "gradients for debug.dump");
  trainer.observe_gradients([&](const GradientPart& sums) {
    const std::int64_t first = sums.elements.begin - weights.plan().owned(sums.unit, weights.rank()).begin;
    std::memcpy(gradients.unit_data(sums.unit) + first * size_of(DType::kFloat32), sums.data,
                static_cast<std::size_t>(sums.elements.count() * size_of(DType::kFloat32)));
  });
  const StepMetrics metrics = trainer.step(1, batch, rate);
  trainer.observe_gradients({});
  dump.write_scalar("/loss", metrics.loss);
  if (!metrics.expert_tokens.empty()) dump.write_scalar("/aux_loss", metrics.aux_loss);
  dump.write_shards("/grad", ArenaValues(gradients));
  return metrics;
}

void train(JobContext& context) {
  const JobConfig& config = context.config();

  // 1. Tokens, and where weights will go: refused before hours are spent.
  BatchSource batches(context.comm,
                      batch_options(context.config(), context.blueprint.model.config.vocab_size));
  if (context.is_root())
    console::line("data      {}", data_text(config, batches.sequence_count(), batches.marks_documents()));
  require_export(context);

  // 2. Weights, straight into the shards.
  Weights weights = make_weights(context);

  // 3. Everything training needs, allocated once.
  context.comm.set_deadline("step", config.deadline.step_seconds);
  const ModelDescription& model = context.blueprint.model;
  Trainer trainer(context.comm, model.config, model.manifest, weights.arena, trainer_options(config),
                  weights.offload.get());
  if (weights.offload) weights.offload->page();
  const LearningRateSchedule schedule = learning_rate_schedule(config);
  TrainReport report(context, weights.load);
  std::optional<DebugDump> dump = open_dump(context);

  // 4. Steps.
  context.directory.set_status("training");
  for (std::int64_t step = 0; step < config.train.steps; ++step) {
    fault_point("train.step", context.comm.rank());
    context.comm.set_deadline("step", config.deadline.step_seconds);
    const Stopwatch watch;
    const Batch batch = batches.batch(step);
    const double rate = schedule.at(step);
    const StepMetrics metrics = dump && step == 0 ? dumped_step(*dump, trainer, weights.arena, batch, rate)
                                                  : trainer.step(step + 1, batch, rate);
    report.add(step + 1, metrics, rate, watch.seconds());
    context.directory.set_step(step + 1);
  }

  // 5. What is left of the run, what cost most first.
  report.finish();
  if (weights.offload) weights.offload->map();
  if (exports_weights(config)) {
    trainer.require_finite_weights();
    export_weights(context, trainer.optimizer().master());
  }
  if (dump) dump->write_shards("/train/final", trainer.optimizer().master());
}

void run_train(JobContext& context) {
  ops::with_plain_errors([&] { train(context); });
}

const JobRegistration kTrain(JobKind::kTrain, {.run = run_train, .start = ops::start_library});

}  // namespace
}  // namespace sluice
