#include "train_saving.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "comm/outcome.hpp"
#include "device/copy.hpp"
#include "job/export_model.hpp"
#include "process/console.hpp"
#include "verify/arena_digest.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>
#include <vector>

namespace sluice {
namespace {

/// Collective over the context's communicator. Restores the best checkpoint, which is exported in place of
/// the last step, `done`.
void take_best_step(JobContext& context, TrainingState& state, std::int64_t done) {
  const HeldOutStep best = state.best();
  if (best.step == 0 && context.is_root())
    log::warning("no checkpoint was evaluated, so the weights of step {} are exported", done);
  if (best.step == 0) return;
  if (context.is_root())
    console::line("best      step {} of {}, held out {:.5f}, is exported", best.step, done, best.loss);
  if (best.step != done) state.rewind(best.step);
}

}  // namespace

bool is_done_already(JobContext& context, const TrainingState& state) {
  const JobConfig& config = context.config();
  std::error_code error;
  const bool is_exported = !exports_weights(config) || (context.directory.was_done_before() &&
                                                        std::filesystem::exists(config.export_.path, error));
  std::int64_t is_done = state.is_done() && context.is_root() && is_exported ? 1 : 0;
  context.comm.all_reduce_max(std::span(&is_done, 1));
  if (is_done == 0)
    require_export(context);
  else if (context.is_root())
    state.tell_done();
  return is_done != 0;
}

void tell_of_patience(JobContext& context, const TrainingState& state, std::int64_t done) {
  context.note = fmt::format("ended after step {}: {}", done, state.patience_text());
  if (context.is_root()) console::line("ended     after step {}: {}", done, state.patience_text());
}

void export_trained(JobContext& context, TrainingState& state, Trainer& trainer, ShardArena& weights,
                    std::int64_t done) {
  if (!exports_weights(context.config())) return;
  if (context.config().export_.at_end == ExportAtEnd::kBest) take_best_step(context, state, done);
  trainer.require_finite_weights();
  export_model(context, trainer.optimizer().master(), weights);
}

TrainDump::TrainDump(JobContext& context, Trainer& trainer)
    : trainer_(trainer),
      dump_(context.sets, context.blueprint.model.manifest,
            context.directory.new_file(context.config().debug.dump)) {}

StepMetrics TrainDump::first_step(const Batch& batch, double learning_rate) {
  const ShardArena& weights = trainer_.binder().weights();
  dump_.write_tensor("/logits", trainer_.first_logits(batch));
  ShardArena gradients(weights.plan(), weights.rank(), DType::kFloat32, weights.memory(),
                       "gradients for debug.dump", ShardArena::Units::kTrained);
  const int whole_unit = weights.plan().whole_unit();
  std::vector<float> whole(
      static_cast<std::size_t>(weights.plan().owned(whole_unit, weights.rank()).count()));
  trainer_.observe_gradients([&](const GradientPart& sums) {
    if (sums.unit == whole_unit)
      return copy_bytes(whole.data(), sums.data, sums.elements.count() * size_of(DType::kFloat32));
    const std::int64_t first = sums.elements.begin - weights.plan().owned(sums.unit, weights.rank()).begin;
    copy_bytes(gradients.unit_data(sums.unit) + first * size_of(DType::kFloat32), sums.data,
               sums.elements.count() * size_of(DType::kFloat32));
  });
  const StepMetrics metrics = trainer_.step(1, batch, learning_rate);
  trainer_.observe_gradients({});
  dump_.write_scalar("/loss", metrics.loss);
  if (!metrics.expert_tokens.empty()) dump_.write_scalar("/aux_loss", metrics.aux_loss);
  dump_.write_shards("/grad", ArenaValues(gradients));
  dump_.write_whole("/grad", weights.plan().layouts(), whole);
  return metrics;
}

void TrainDump::write_weights() {
  const ShardValues& master = trainer_.optimizer().master();
  dump_.write_shards("/train/final", master);
  const UnitLayouts& layouts = master.plan().layouts();
  std::vector<float> whole(static_cast<std::size_t>(layouts.trained_buffers.count()));
  master.read_buffers(layouts.trained_buffers.begin, layouts.trained_buffers.count(), whole.data());
  dump_.write_whole("/train/final", layouts, whole);
}

std::optional<TrainDump> open_dump(JobContext& context, const TrainingState& state, Trainer& trainer) {
  if (context.config().debug.dump.empty()) return std::nullopt;
  if (!state.resumes()) return std::make_optional<TrainDump>(context, trainer);
  if (context.is_root())
    log::warning(
        "debug.dump is not written: it begins with a first step, and this run goes on from a later one");
  return std::nullopt;
}

namespace {

constexpr std::int64_t kSlowDiskBytesPerSecond = 100'000'000;

}  // namespace

Weights make_trained_weights(JobContext& context, TrainingState& state, bool needs_start) {
  const ParameterManifest& manifest = context.blueprint.model.manifest;
  const bool has_frozen = manifest.trained_tensors().size() < manifest.stored_tensors().size();
  Weights weights =
      state.resumes() && !has_frozen && !needs_start ? make_empty_weights(context) : make_weights(context);
  if (!has_frozen || (!state.resumes() && !context.config().checkpoint.saves())) return weights;
  const auto digest = std::make_shared<FrozenDigest>(context.sets.own(), weights.arena, manifest);
  state.set_base([digest] { return digest->sum().hex(); });
  if (UnitBytes* const units = weights.arena.elsewhere())
    units->examine_first([digest](int unit, const std::byte* bytes) { digest->add(unit, bytes); });
  else
    state.find_base();
  return weights;
}

SavedTraining saved_training(const JobContext& context, Trainer& trainer, const ShardArena& weights) {
  const auto list = [&] {
    Optimizer& optimizer = trainer.optimizer();
    std::vector<StateSpan> state =
        list_state(context.blueprint.model.manifest, weights,
                   {&optimizer.layout(), context.config().optimizer.mode(), optimizer.state()});
    if (context.config().optimizer.gradients == GradientMode::kRelease) order_backward(state);
    return state;
  };
  return {weights, list, [&] { trainer.require_finite_weights(); }};
}

StepMetrics saving_before_failure(const JobContext& context, TrainingState& state, std::int64_t done,
                                  const std::function<StepMetrics()>& step) {
  try {
    return step();
  } catch (const Error& error) {
    if (error.code() == ExitCode::kNumerics &&
        context.config().optimizer.gradients != GradientMode::kRelease) {
      const Outcome outcome = outcome_of([&] { state.save(done); });
      if (outcome.failed()) log::warning("nothing is saved: {}", outcome.text);
    }
    throw;
  }
}

double planned_disk_seconds(const JobContext& context) {
  double seconds = 0;
  for (const RankMemory& rank : context.plan.ranks)
    seconds = std::max(seconds, rank.offload.step_seconds(kSlowDiskBytesPerSecond));
  return seconds;
}

}  // namespace sluice
