// job.kind = "train": loads or draws the weights, then trains on token sequences. job.kind = "prefer": the same
// on pairs of answers, with the loss of [prefer].
//
//   mpirun -np 3 sluice run job.toml

#include "base/fault.hpp"
#include "base/trace/recorder.hpp"
#include "compute_job.hpp"
#include "held_out.hpp"
#include "job/prepare/options_of_job.hpp"
#include "job/prepare/start_notes.hpp"
#include "job/text_tokens.hpp"
#include "job/trace/step_trace.hpp"
#include "pair_reference.hpp"
#include "process/console.hpp"
#include "train/guard/step_limit.hpp"
#include "train_guard.hpp"
#include "train_report.hpp"
#include "train_samples.hpp"
#include "train_saving.hpp"

namespace sluice {
namespace {

void train(JobContext& context) {
  const JobConfig& config = context.config();
  const ModelDescription& model = context.blueprint.model;
  // 1. Tokens, and the place of the results: faults are found before hours are spent.
  const JobConfig files = with_token_files(context);
  BatchSource batches(context.comm, batch_options(files, model.config.vocab_size));
  if (context.is_root()) console::line("data      {}", data_text(config, batches.facts()));
  if (context.is_root() && config.distil.learns())
    console::line("teacher   {}", teacher_text(config.distil, batches.teacher()));
  HeldOut held_out(context, files.evaluate.tokens);
  TrainingState state(context, batches);
  if (is_done_already(context, state)) return;

  // 2. Weights, loaded straight into the shards, and what they are compared with.
  PairReference reference(context, batches, held_out);
  Weights weights = make_trained_weights(context, state, reference.is_missing());
  if (!reference.make(weights.arena)) return;

  // 3. Everything training needs, allocated once.
  StepLimit limit(config.deadline.step_seconds, planned_disk_seconds(context));
  context.comm.set_deadline("step", limit.seconds());
  Trainer trainer(context.links, model.config, model.manifest, weights.arena, trainer_options(config, model));
  const SavesEnd saves_end(state);
  state.attach(saved_training(context, trainer, weights.arena));
  trainer.optimizer().before_update([&](int unit) { state.before_update(unit); });
  const LearningRateSchedule schedule = learning_rate_schedule(config);
  TrainGuard guard(context, trainer, state);
  TrainSamples samples(context, trainer, state.steps_done());
  TrainReport report(context, weights.load, held_out.files(), std::ssize(batches.facts()),
                     samples.most(config.train.steps));
  std::optional<TrainDump> dump = open_dump(context, state, trainer);

  // 4. Steps.
  StepTrace step_trace(context);
  state.begin_steps();
  std::int64_t done = state.steps_done();
  while (done < config.train.steps && context.ending == ExitCode::kDone && !state.is_out_of_patience()) {
    fault_point("train.step", context.comm.rank());
    context.comm.set_deadline("step", limit.seconds());
    const std::int64_t step = done + 1;
    const double rate = schedule.at(done);
    step_trace.before_step(step);
    const Stopwatch watch;
    const StepMetrics metrics = saving_before_failure(context, state, done, [&] {
      const trace::Span span(trace::Kind::kStep, "step", step);
      const Batch batch = batches.batch(done);
      return dump && step == 1 ? dump->first_step(batch, rate)
                               : trainer.step(step, batch, rate, guard.largest_loss());
    });
    const double seconds = watch.seconds();
    limit.add(seconds);
    const HeldOutLoss loss = held_out.after_step(step, trainer.binder());
    report.add(step, metrics, rate, seconds, loss.files, batches.epochs(step));
    guard.after_step(step, metrics, rate);
    const double held_out_loss = metrics.left_out == LeftOut::kNo ? loss.all : kNotEvaluated;
    if (state.after_step(step, held_out_loss)) context.ending = ExitCode::kResumable;
    report.add(samples.after_step(step));
    step_trace.after_step(step);
    done = step;
  }
  step_trace.finish(done);
  if (context.ending == ExitCode::kResumable) return report.finish();

  // 5. The end of the run, with the costliest results first.
  if (done < config.train.steps) tell_of_patience(context, state, done);
  guard.finish();
  state.end_steps(done);
  report.finish();
  const WholeAccess all(weights.arena, WholeAccess::Access::kRead);
  if (dump) dump->write_weights();  // must precede the merge of adapters into the weights
  export_trained(context, state, trainer, weights.arena, done);
  state.require_saved();
}

const JobRegistration kTrain(JobKind::kTrain, computing<train>());
const JobRegistration kPrefer(JobKind::kPrefer, computing<train>());

}  // namespace
}  // namespace sluice
