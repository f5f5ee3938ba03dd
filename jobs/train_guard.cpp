#include "train_guard.hpp"

#include "base/fault.hpp"
#include "base/log.hpp"
#include "job/prepare/options_of_job.hpp"
#include "train/guard/rank_comparison.hpp"

#include <optional>
#include <span>

namespace sluice {

TrainGuard::TrainGuard(JobContext& context, Trainer& trainer, TrainingState& saved)
    : context_(context),
      trainer_(trainer),
      saved_(saved),
      guard_(context.config().guard),
      collapse_(context.blueprint.model.config.experts, context.blueprint.model.config.experts_per_token) {}

void TrainGuard::after_step(std::int64_t step, const StepMetrics& metrics, double learning_rate) {
  if (metrics.left_out != LeftOut::kNo) {
    after_left_out(step, metrics);
  } else {
    warn_of_spike(step, metrics.loss);
    guard_.add_update(metrics.loss);
  }
  warn_of_collapse(step, metrics);
  warn_of_preferences(step, metrics, learning_rate);
  const std::int64_t every = context_.config().guard.compare_ranks_every;
  if (every > 0 && step % every == 0) compare(step, metrics, learning_rate);
}

void TrainGuard::warn_of_spike(std::int64_t step, double loss) const {
  if (loss > guard_.spike_limit() && context_.is_root())
    log::warning(
        "step {}: loss {:.5g} is a spike: above {:.5g}, which is guard.spike_factor = {:g} times the median "
        "of the last {} steps. Its update was made (guard.on_spike = \"warn\")",
        step, loss, guard_.spike_limit(), context_.config().guard.spike_factor,
        context_.config().guard.spike_window);
}

void TrainGuard::warn_of_collapse(std::int64_t step, const StepMetrics& metrics) {
  const std::optional<CollapsedLayer> collapsed = collapse_.add(metrics.expert_tokens);
  if (!collapsed || !context_.is_root()) return;
  const ModelConfig& model = context_.blueprint.model.config;
  log::warning(
      "step {}: the router of layer {} has collapsed: for {} steps its {} busiest of {} experts have taken "
      "more than {:.0f} % of all choices, {:.0f} % in this one, and {} experts none. For equal loads set {}",
      step, model.moe_layer(collapsed->layer), CollapseWatch::kSteps, model.experts_per_token, model.experts,
      100 * CollapseWatch::kShare, 100 * collapsed->share, collapsed->unused,
      balancing_advice(context_.config().train, model));
}

void TrainGuard::warn_of_preferences(std::int64_t step, const StepMetrics& metrics, double learning_rate) {
  if (!metrics.preferences) return;
  const bool updates = metrics.left_out == LeftOut::kNo && learning_rate > 0;
  const PreferenceWatch::Finding finding = preferences_.add(*metrics.preferences, updates);
  if (!context_.is_root()) return;
  if (finding == PreferenceWatch::Finding::kNoMargin)
    log::warning(
        "step {}: after {} updates the margin of every pair is still exactly 0, so nothing is trained that "
        "changes an answer. Likely cause: lora.targets selects no weight that matters, or "
        "optimizer.learning_rate is too small for model.dtype",
        step, PreferenceWatch::kUpdates);
  if (finding == PreferenceWatch::Finding::kFallingLogProb)
    log::warning(
        "step {}: the log-probability of chosen answers has fallen through {} steps, to {:.4g}: the margin "
        "grows because rejected answers become even less probable. prefer.sft_weight above 0, a larger "
        "prefer.beta or a lower optimizer.learning_rate counters that",
        step, PreferenceWatch::kSteps, metrics.preferences->chosen_log_prob);
}

void TrainGuard::after_left_out(std::int64_t step, const StepMetrics& metrics) {
  const bool rewinds =
      metrics.left_out == LeftOut::kSpike && context_.config().guard.on_spike == OnSpike::kRewind;
  if (rewinds) saved_.settle();
  const std::int64_t saved = saved_.saved_step();
  std::string rewind;
  if (rewinds)
    rewind = saved == 0
                 ? ". There is no checkpoint to rewind to"
                 : fmt::format(". Rewinding to the checkpoint of step {}, and on with the next batch", saved);
  if (context_.is_root()) log::warning("step {}: update skipped: {}{}", step, metrics.finding, rewind);
  if (metrics.left_out == LeftOut::kNoTarget) return guard_.add_without_target();
  guard_.add_left_out(step, metrics.finding);
  if (rewinds && saved > 0) saved_.rewind(saved);
}

void TrainGuard::compare(std::int64_t step, const StepMetrics& metrics, double learning_rate) {
  CommonValues values{.step = step,
                      .updates = trainer_.optimizer().steps(),
                      .learning_rate = learning_rate,
                      .loss = metrics.loss,
                      .aux_loss = metrics.aux_loss,
                      .z_loss = metrics.z_loss,
                      .grad_norm = metrics.grad_norm,
                      .expert_tokens = metrics.expert_tokens};
  fault_point("train.compared", context_.comm.rank(),
              std::as_writable_bytes(std::span(&values.learning_rate, 1)));
  require_same_on_all_ranks(context_.comm, values);
  require_same_weights_in_sets(context_.sets, trainer_.binder().weights(), step);
}

void TrainGuard::finish() const {
  if (guard_.left_out() > 0 && context_.is_root())
    log::warning("updates of this run that were skipped: {}; see /train/left_out in the metrics file",
                 guard_.left_out());
}

}  // namespace sluice
