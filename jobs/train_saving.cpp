#include "train_saving.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "comm/outcome.hpp"
#include "verify/arena_digest.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace sluice {
namespace {

constexpr std::int64_t kSlowDiskBytesPerSecond = 100'000'000;

}  // namespace

Weights make_trained_weights(JobContext& context, TrainingState& state, bool needs_start) {
  const ParameterManifest& manifest = context.blueprint.model.manifest;
  const bool has_frozen = manifest.trained_tensors().size() < manifest.stored_tensors().size();
  Weights weights =
      state.resumes() && !has_frozen && !needs_start ? make_empty_weights(context) : make_weights(context);
  if (!has_frozen || (!state.resumes() && !context.config().checkpoint.saves())) return weights;
  const auto digest = std::make_shared<FrozenDigest>(context.comm, weights.arena, manifest);
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
