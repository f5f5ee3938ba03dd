// job.kind = "train": loads or draws the weights, then trains on token sequences.
//
//   mpirun -np 3 sluice run job.toml

#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/log.hpp"
#include "base/trace/recorder.hpp"
#include "comm/outcome.hpp"
#include "data/batch_source.hpp"
#include "device/copy.hpp"
#include "held_out.hpp"
#include "job/console.hpp"
#include "job/export_adapter.hpp"
#include "job/export_weights.hpp"
#include "job/job.hpp"
#include "job/prepare/batch_options.hpp"
#include "job/prepare/start_notes.hpp"
#include "job/prepare/text_tokens.hpp"
#include "job/prepare/trainer_options.hpp"
#include "job/saving/rewind.hpp"
#include "job/saving/training_state.hpp"
#include "job/trace/step_trace.hpp"
#include "job/weights.hpp"
#include "ops/runtime/library.hpp"
#include "ops/runtime/tensor_memory.hpp"
#include "train/debug_dump.hpp"
#include "train/guard/step_limit.hpp"
#include "train/trainer.hpp"
#include "train_guard.hpp"
#include "train_report.hpp"
#include "train_samples.hpp"
#include "verify/arena_digest.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

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
  ShardArena gradients(weights.plan(), weights.rank(), DType::kFloat32, "gradients for debug.dump",
                       ShardArena::Units::kTrained);
  trainer.observe_gradients([&](const GradientPart& sums) {
    const std::int64_t first = sums.elements.begin - weights.plan().owned(sums.unit, weights.rank()).begin;
    copy_bytes(gradients.unit_data(sums.unit) + first * size_of(DType::kFloat32), sums.data,
               sums.elements.count() * size_of(DType::kFloat32));
  });
  const StepMetrics metrics = trainer.step(1, batch, rate);
  trainer.observe_gradients({});
  dump.write_scalar("/loss", metrics.loss);
  if (!metrics.expert_tokens.empty()) dump.write_scalar("/aux_loss", metrics.aux_loss);
  dump.write_shards("/grad", ArenaValues(gradients));
  return metrics;
}

/// All that this rank keeps from step to step, in the order in which units are updated.
std::vector<StateSpan> list_training_state(const JobContext& context, Trainer& trainer,
                                           const ShardArena& weights) {
  Optimizer& optimizer = trainer.optimizer();
  std::vector<StateSpan> state =
      list_state(context.blueprint.model.manifest, weights,
                 {&optimizer.layout(), context.config().optimizer.mode(), optimizer.state()});
  if (context.config().optimizer.gradients == GradientMode::kRelease) order_backward(state);
  return state;
}

/// The job ends with the failure of the step.
void save_if_sound(const std::function<void()>& save) {
  const Outcome outcome = outcome_of(save);
  if (outcome.failed()) log::warning("nothing is saved: {}", outcome.text);
}

/// The slowest disk that a step may be waiting for.
constexpr double kSlowDiskBytesPerSecond = 100e6;

/// Seconds that a step waits for its disk by the plan, on the rank that waits longest.
double planned_disk_seconds(const JobContext& context) {
  std::int64_t bytes = 0;
  for (const RankMemory& rank : context.memory_plan())
    bytes = std::max({bytes, rank.offload.step_read_bytes, rank.offload.step_written_bytes});
  return static_cast<double>(bytes) / kSlowDiskBytesPerSecond;
}

/// Numbers that are not finite are found on all ranks alike, and before anything is updated unless gradients
/// are released: then what was trained up to there is saved before the job ends.
StepMetrics saving_before_failure(const JobConfig& config, const std::function<StepMetrics()>& step,
                                  const std::function<void()>& save) {
  try {
    return step();
  } catch (const Error& error) {
    if (error.code() == ExitCode::kNumerics && config.optimizer.gradients != GradientMode::kRelease)
      save_if_sound(save);
    throw;
  }
}

/// Ends saves before weights and optimizer go, of which a thread may still be saving something.
struct SavesEnd {
  TrainingState& state;
  explicit SavesEnd(TrainingState& of) : state(of) {}
  ~SavesEnd() { state.give_up(); }
  SavesEnd(const SavesEnd&) = delete;
  SavesEnd& operator=(const SavesEnd&) = delete;
};

/// Whether there are frozen weights, which a checkpoint does not hold.
bool has_frozen_weights(const ParameterManifest& manifest) {
  return manifest.trained_tensors().size() < manifest.stored_tensors().size();
}

/// Collective. Whether an earlier run has done all that the job asks for: its last step is saved, and what it
/// exports was exported.
bool is_done_already(JobContext& context, const TrainingState& state) {
  if (!state.is_done()) return false;
  const JobConfig& config = context.config();
  std::error_code error;
  const bool is_exported = !exports_weights(config) || (context.directory.was_done_before() &&
                                                        std::filesystem::exists(config.export_.path, error));
  std::int64_t is_done = context.is_root() && is_exported ? 1 : 0;
  context.comm.all_reduce_max(std::span(&is_done, 1));
  return is_done != 0;
}

/// Tells that the training is over before train.steps.
void tell_of_patience(JobContext& context, const TrainingState& state, std::int64_t done) {
  context.note = fmt::format("ended after step {}: {}", done, state.patience_text());
  if (context.is_root()) console::line("ended     after step {}: {}", done, state.patience_text());
}

/// Collective. Fills the state from the best saved step, which is exported in place of the last one, `done`.
void take_best_step(JobContext& context, const TrainingState& state, std::int64_t done,
                    const std::function<std::vector<StateSpan>()>& list) {
  const HeldOutStep best = state.best();
  if (best.step == 0 && context.is_root())
    log::warning("no saved step was evaluated, so the weights of step {} are exported", done);
  if (best.step == 0) return;
  if (context.is_root())
    console::line("best      step {} of {}, held out {:.5f}, is exported", best.step, done, best.loss);
  if (best.step != done) rewind_to(context, best.step, list());
}

void train(JobContext& context) {
  const JobConfig& config = context.config();

  // 1. Tokens, and where weights will go: refused before hours are spent.
  const JobConfig files = with_token_files(context);
  BatchSource batches(context.comm, batch_options(files, context.blueprint.model.config.vocab_size));
  if (context.is_root()) console::line("data      {}", data_text(config, batches.facts()));
  HeldOut held_out(context, files.evaluate.tokens);
  TrainingState state(context, batches);
  if (is_done_already(context, state)) {
    if (context.is_root()) state.tell_done();
    return;
  }
  require_export(context);

  // 2. Weights, straight into the shards.
  const bool has_base = has_frozen_weights(context.blueprint.model.manifest);
  Weights weights = state.resumes() && !has_base ? make_empty_weights(context) : make_weights(context);
  if (has_base && (state.resumes() || config.checkpoint.saves()))
    state.set_base(digest_of_frozen(context.comm, weights.arena, context.blueprint.model.manifest).hex());

  // 3. Everything training needs, allocated once.
  StepLimit limit(config.deadline.step_seconds, planned_disk_seconds(context));
  context.comm.set_deadline("step", limit.seconds());
  const ModelDescription& model = context.blueprint.model;
  Trainer trainer(context.links, model.config, model.manifest, weights.arena, trainer_options(config, model),
                  weights.offload.get());
  state.set_offload(weights.offload.get());
  const auto list = [&] {
    if (weights.offload) weights.offload->settle();
    trainer.require_finite_weights();  // nothing else is worth saving
    return list_training_state(context, trainer, weights.arena);
  };
  const auto list_to_restore = [&] {
    if (weights.offload) weights.offload->map(PagedFile::Access::kWrite);
    return list_training_state(context, trainer, weights.arena);
  };
  if (state.resumes()) {
    state.restore(list_to_restore());
    trainer.optimizer().set_steps(state.steps_done());
  }
  trainer.optimizer().before_update([&](int unit) { state.before_update(unit); });
  const SavesEnd saves_end{state};
  if (weights.offload) weights.offload->page();
  const LearningRateSchedule schedule = learning_rate_schedule(config);
  TrainGuard guard(context, trainer, state);
  TrainSamples samples(context, trainer, state.steps_done());
  TrainReport report(context, weights.load, held_out.files(), std::ssize(batches.facts()),
                     samples.most(config.train.steps));
  std::optional<DebugDump> dump = state.resumes() ? std::nullopt : open_dump(context);
  if (state.resumes() && !config.debug.dump.empty() && context.is_root())
    log::warning(
        "debug.dump is not written: it begins with a first step, and this run goes on from a later one");

  // 4. Steps.
  StepTrace step_trace(context);
  state.begin_steps();
  context.directory.set_status("training");
  std::int64_t done = state.steps_done();
  for (std::int64_t step = done; step < config.train.steps && !state.is_out_of_patience(); ++step) {
    fault_point("train.step", context.comm.rank());
    context.comm.set_deadline("step", limit.seconds());
    const double rate = schedule.at(step);
    step_trace.before_step(step + 1);
    const Stopwatch watch;
    const auto make_step = [&] {
      const trace::Span span(trace::Kind::kStep, "step", step + 1);
      const Batch batch = batches.batch(step);
      return dump && step == 0 ? dumped_step(*dump, trainer, weights.arena, batch, rate)
                               : trainer.step(step + 1, batch, rate, guard.largest_loss());
    };
    const StepMetrics metrics = saving_before_failure(config, make_step, [&] { state.save(step, list); });
    const double seconds = watch.seconds();
    limit.add(seconds);
    const HeldOutLoss loss = held_out.after_step(step + 1, trainer.binder());
    report.add(step + 1, metrics, rate, seconds, loss.files, batches.epochs(step + 1));
    guard.after_step(step + 1, metrics, rate, list_to_restore);
    if (weights.offload) weights.offload->page();
    const bool ends =
        state.after_step(step + 1, list, metrics.left_out == LeftOut::kNo ? loss.all : kNotEvaluated);
    report.add(samples.after_step(step + 1));
    step_trace.after_step(step + 1, ends || step + 1 == config.train.steps || state.is_out_of_patience());
    done = step + 1;
    if (!ends) continue;
    context.ending = ExitCode::kResumable;
    return report.finish();
  }
  if (done < config.train.steps) tell_of_patience(context, state, done);

  // 5. What is left of the run, what cost most first.
  guard.finish();
  state.end_steps(done);
  report.finish();
  if (weights.offload) weights.offload->map();
  // Dumped before adapters are merged with the weights.
  if (dump) dump->write_shards("/train/final", trainer.optimizer().master());
  if (exports_weights(config)) {
    if (config.export_.at_end == ExportAtEnd::kBest) take_best_step(context, state, done, list_to_restore);
    trainer.require_finite_weights();
    export_model(context, trainer.optimizer().master(), weights.arena);
  }
  state.require_saved();
}

void run_train(JobContext& context) {
  ops::with_plain_errors([&] { train(context); });
}

const JobRegistration kTrain(JobKind::kTrain, {.run = run_train,
                                               .start = ops::start_library,
                                               .limit_device_memory = ops::limit_tensor_memory});

}  // namespace
}  // namespace sluice
