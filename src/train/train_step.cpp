// One training step over sharded weights, in the order in which it happens.
//
// Layers come first, micro-batches second: a layer's units are gathered once per pass and every micro-batch
// of the step goes through them, so a step gathers each unit twice and reduces it once, whatever the number
// of micro-batches. What is kept from forward to backward is each layer's input; backward runs the layer
// again with a graph.
#include "base/trace/recorder.hpp"
#include "train/layer_walk.hpp"
#include "train/load_balancing.hpp"
#include "train/objective/objective.hpp"
#include "train/router_biases.hpp"
#include "train/step_findings.hpp"
#include "train/trainer.hpp"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

namespace sluice {

/// State of the step that is being made.
struct Trainer::StepState {
  std::int64_t number;  ///< number of the step, from 1
  const Batch& batch;
  double largest_loss;  ///< the largest loss with which the update is made
  std::unique_ptr<Objective> objective;
  std::vector<TrainedMicroBatch> micro_batches;
  LayerWalk walk;
  RouterLosses router;
  std::vector<at::Tensor> reference_hidden;  ///< hidden states of the reference until reference_losses()
  StepMetrics metrics;
  Activations activations = Activations::kLetGo;  ///< whether another backward pass follows the present one
  bool has_reference_losses = false;              ///< whether reference_losses() was called

  [[nodiscard]] bool is_left_out() const { return metrics.left_out != LeftOut::kNo; }
};

StepMetrics Trainer::step(std::int64_t number, const Batch& batch, double learning_rate,
                          double largest_loss) {
  optimizer_.begin_step(number, learning_rate);
  if (batch.global_targets == 0) return step_without_target(batch);
  StepState step = begin_step(number, batch, largest_loss);
  forward(step);
  reduce_routing(step);
  for (const GradientUse use : sink_->passes()) {
    begin_backward(step, use);
    if (!head(step)) break;
    backward(step);
    reduce_norm(step);
    if (step.is_left_out()) break;
  }
  if (!step.is_left_out()) {
    sink_->update(clip_factor(step.metrics.grad_norm));
    move_biases(step.metrics);
  }
  step.metrics.phase_seconds = timer_.take();
  sent_after_step_ = binder_.mesh().traffic().sent_bytes;
  return std::move(step.metrics);
}

Trainer::StepState Trainer::begin_step(std::int64_t number, const Batch& batch, double largest_loss) {
  static_cast<void>(timer_.take());
  counted_bytes_ += binder_.mesh().traffic().sent_bytes - sent_after_step_;  // by evaluations and saves
  dropout_.step = number;
  const ModelConfig& model = decoder_.config();
  std::vector<TrainedMicroBatch> micro_batches = split(batch);
  LayerWalk walk(binder_, decoder_, inputs_of(micro_batches));
  StepState step{
      number, batch, largest_loss, objective_of(batch), std::move(micro_batches), std::move(walk), {},
      {},     {}};
  step.metrics.tokens = options_.train.batch_sequences * options_.sequence_length - batch.global_padding;
  step.router.z_scale = z_scale(options_.train.router_z_loss, model.moe_layer_count(), step.metrics.tokens);
  for (int layer = 0; layer < model.layer_count(); ++layer)
    step.router.sums.push_back(decoder_.no_routing(layer));
  if (model.moe_layer_count() > 0 && options_.train.aux_loss_coefficient != 0)
    step.router.probability_grads = at::zeros({model.moe_layer_count(), model.experts},
                                              at::TensorOptions(decoder_.device()).dtype(at::kFloat));
  return step;
}

void Trainer::forward(StepState& step) {
  std::vector<WalkedPass> passes{{decoder_, [&](int layer, std::size_t i, const at::Tensor& x) {
                                    dropout_.first_token = step.micro_batches[i].first_token;
                                    return layers_.forward(layer, step.micro_batches[i], step.router, x);
                                  }}};
  if (reference_) passes.push_back(inference_pass(*reference_, step.micro_batches, binder_.exchange()));
  std::vector<std::vector<at::Tensor>> hidden = step.walk.forward(passes);
  for (std::size_t i = 0; i < step.micro_batches.size(); ++i) step.micro_batches[i].hidden = hidden[0][i];
  if (reference_) step.reference_hidden = std::move(hidden[1]);
}

/// Sums the routing of all ranks, for the router's own losses and their gradients.
void Trainer::reduce_routing(StepState& step) {
  const PhaseTimer::Scope phase(timer_, Phase::kReduce);
  StepMetrics& metrics = step.metrics;
  RoutingTotals totals = collect(step.router.sums);
  comm_.all_reduce_sum(std::span(totals.expert_tokens));
  comm_.all_reduce_sum(std::span(totals.probability_sums));
  if (step.router.z_scale != 0) {
    comm_.all_reduce_sum(std::span(&totals.squared_log_sums, 1));
    metrics.z_loss = z_loss(totals, metrics.tokens);
  }
  const bool has_loss = decoder_.config().router.has_balancing_loss();
  metrics.aux_loss =
      has_loss ? load_balancing_loss(totals, metrics.tokens, options_.train.aux_loss_scope) : 0;
  if (step.router.probability_grads.defined())
    fill_probability_gradient(totals, metrics.tokens, options_.train.aux_loss_coefficient,
                              options_.train.aux_loss_scope, step.router.probability_grads);
  metrics.expert_tokens = std::move(totals.expert_tokens);
}

void Trainer::begin_backward(StepState& step, GradientUse use) {
  const bool is_last = use == GradientUse::kUpdate;
  step.activations = is_last ? Activations::kLetGo : Activations::kKeep;
  sink_->begin_pass(use, clip_factor(step.metrics.grad_norm));
  reducer_.begin_step();
  binder_.begin_pass(is_last ? ArenaPass::kUpdate : ArenaPass::kNorm);
}

/// Forward and backward of the head, and the loss. False if the step ends here, with its update skipped.
bool Trainer::head(StepState& step) {
  const bool goes_on = lowest_layer_ < decoder_.config().layer_count();
  const StageBinder::GatheredStage bound = step.walk.head(goes_on ? &stages_.layers.back() : nullptr);
  reducer_.open(stages_.head);
  reference_losses(step);
  std::vector<double> sums = head_losses(step);
  const PhaseTimer::Scope phase(timer_, Phase::kReduce);
  comm_.all_reduce_sum(std::span(sums));
  const ObjectiveResult result = step.objective->finish(sums);
  step.metrics.loss = result.loss;
  step.metrics.preferences = result.preferences;
  step.metrics.distil = result.distil;
  if (std::isfinite(step.metrics.loss) && step.metrics.loss <= step.largest_loss) {
    reducer_.reduce(stages_.head);
    return true;
  }
  binder_.drop_next();
  refuse_loss(step);
  return false;
}

/// Hands the losses under the reference to the objective, once in a step.
void Trainer::reference_losses(StepState& step) {
  const PhaseTimer::Scope phase(timer_, Phase::kForward);
  if (!reference_ || std::exchange(step.has_reference_losses, true)) return;
  const std::vector<at::Tensor> hidden = std::exchange(step.reference_hidden, {});
  for (std::size_t i = 0; i < hidden.size(); ++i)
    step.objective->take_reference(
        i, reference_->head(hidden[i], step.micro_batches[i].targets, ops::NoLossGradient()).losses);
  for (std::size_t i = hidden.size(); i < step.walk.head_rounds(); ++i)
    reference_->serve_head(ops::NoLossGradient());
}

/// This rank's sums for the objective.
std::vector<double> Trainer::head_losses(StepState& step) {
  const PhaseTimer::Scope phase(timer_, Phase::kBackward);
  const Objective& objective = *step.objective;
  std::vector<double> sums = objective.no_sums();
  for (std::size_t i = 0; i < step.micro_batches.size(); ++i) {
    TrainedMicroBatch& micro_batch = step.micro_batches[i];
    dropout_.first_token = micro_batch.first_token;
    Decoder::Head result = decoder_.head(micro_batch.hidden, micro_batch.targets, objective.coefficients(i),
                                         beside_targets(step.batch, micro_batch));
    objective.add(i, result.losses, sums);
    if (result.taught) objective.add_taught(*result.taught, sums);
    micro_batch.d_x = std::move(result.d_x);
    if (step.activations == Activations::kLetGo) micro_batch.hidden.reset();
  }
  for (std::size_t i = step.micro_batches.size(); i < step.walk.head_rounds(); ++i)
    decoder_.serve_head(objective.coefficients(i), beside_targets(step.batch, {}));
  return sums;
}

/// What the head makes beside the losses of a micro-batch. Ranks that have the head between them ask for the same,
/// whether their tokens have a teacher or not.
ops::BesideTargets Trainer::beside_targets(const Batch& batch, const MicroBatch& micro_batch) {
  if (micro_batch.teacher) return *micro_batch.teacher;
  if (!options_.distil || binder_.vocabulary() == nullptr) return {};
  const std::int64_t tokens = micro_batch.targets.defined() ? micro_batch.targets.numel() : 0;
  return ops::TeacherTokens{.ids = at::empty({tokens, 0}, at::kInt),
                            .weights = at::empty({tokens, 0}, at::kFloat),
                            .rest = at::zeros({tokens}, at::kFloat),
                            .temperature = batch.teacher_facts.temperature,
                            .weight = options_.distil->weight};
}

void Trainer::backward(StepState& step) {
  for (int layer = decoder_.config().layer_count() - 1; layer >= std::max(lowest_layer_, 0); --layer) {
    const Stage& stage = stages_.layers[static_cast<std::size_t>(layer)];
    const StageBinder::GatheredStage bound(binder_, stage,
                                           layer > lowest_layer_ ? stages_.before(layer) : nullptr);
    reducer_.open(stage);
    {
      const trace::Span span(trace::Kind::kOperation, "layer backward", layer);
      const PhaseTimer::Scope phase(timer_, Phase::kBackward);
      for (TrainedMicroBatch& micro_batch : step.micro_batches) {
        dropout_.first_token = micro_batch.first_token;
        layers_.backward(layer, micro_batch, step.router, step.activations);
      }
      step.walk.serve_backward(layer);
    }
    const PhaseTimer::Scope phase(timer_, Phase::kReduce);
    reducer_.reduce(stage);
  }
  if (lowest_layer_ < 0) embed_backward(step);
}

void Trainer::embed_backward(StepState& step) {
  const std::optional<RowExchange>& rows = step.walk.embedding_rows();
  at::Tensor row_grads;
  if (rows)
    row_grads = reducer_.open_rows(stages_.embed, *rows);
  else
    reducer_.open(stages_.embed);
  {
    const PhaseTimer::Scope phase(timer_, Phase::kBackward);
    for (const TrainedMicroBatch& micro_batch : step.micro_batches) {
      if (rows)
        decoder_.embed_backward(micro_batch.inputs, micro_batch.d_x, {rows->rows(), row_grads});
      else
        decoder_.embed_backward(micro_batch.inputs, micro_batch.d_x);
    }
  }
  const PhaseTimer::Scope phase(timer_, Phase::kReduce);
  reducer_.reduce(stages_.embed);
}

/// Completes the reduction of gradients, and sets their global norm unless the update is skipped.
void Trainer::reduce_norm(StepState& step) {
  const PhaseTimer::Scope phase(timer_, Phase::kReduce);
  reducer_.finish();
  reducer_.reduce_whole();
  const std::int64_t sent = binder_.mesh().traffic().sent_bytes;
  // Other sets have the same gradients.
  std::array<double, 2> sums{binder_.mesh().sets().is_first() ? sink_->squares() : 0,
                             static_cast<double>(sent - std::exchange(counted_bytes_, sent))};
  comm_.all_reduce_sum(std::span<double>(sums));
  step.metrics.communicated_bytes += static_cast<std::int64_t>(sums[1]);
  step.metrics.grad_norm = std::sqrt(sums[0]);
  if (!std::isfinite(step.metrics.grad_norm)) refuse_gradients(step);
}

/// Collective over the communicator. Ends the step before its backward pass, because of its loss.
void Trainer::refuse_loss(StepState& step) {
  StepMetrics& metrics = step.metrics;
  metrics.grad_norm = std::numeric_limits<double>::quiet_NaN();
  if (std::isfinite(metrics.loss)) {
    metrics.left_out = LeftOut::kSpike;
    metrics.finding =
        fmt::format("loss {:.5g} is above the largest allowed, {:.5g}", metrics.loss, step.largest_loss);
    return;
  }
  // Finding of this rank; none where its weights lie on a disk, which may differ between ranks.
  NonFinite own;
  if (binder_.weights().paged() == nullptr) own = find_non_finite(binder_.weights(), manifest_);
  const std::string weight = first_of_ranks(comm_, own);
  const std::string first = weight.empty() ? first_broken_activation(comm_, step.micro_batches, lowest_layer_,
                                                                     decoder_.config().layer_count())
                                           : weight;
  metrics.left_out = LeftOut::kNonFinite;
  metrics.finding = fmt::format("loss {} is not finite, first in {}, so the weights were left as they are",
                                metrics.loss, first);
  if (!weight.empty() || options_.on_nonfinite == OnNonFinite::kStop)
    fail_numerics(step.number, metrics.finding);
}

/// Collective over the communicator. Ends the step because of its gradients: without an update, or amid the
/// update where gradients are released.
void Trainer::refuse_gradients(StepState& step) {
  StepMetrics& metrics = step.metrics;
  const std::string first = first_of_ranks(comm_, sink_->non_finite());
  metrics.left_out = LeftOut::kNonFinite;
  metrics.finding =
      broken_gradient_text(comm_, metrics.loss, metrics.grad_norm, first, sink_->updated_parts());
  if (options_.on_nonfinite == OnNonFinite::kStop) fail_numerics(step.number, metrics.finding);
}

/// Moves correction biases against the loads of the experts, as part of the update.
void Trainer::move_biases(const StepMetrics& metrics) {
  if (options_.train.router_bias_update_rate == 0) return;
  optimizer_.announce_update(static_cast<int>(store_.plan().layouts().units.size()));
  move_router_biases(binder_.weights(), manifest_, metrics.expert_tokens,
                     static_cast<float>(options_.train.router_bias_update_rate));
}

StepMetrics Trainer::step_without_target(const Batch& batch) const {
  const ModelConfig& model = decoder_.config();
  StepMetrics metrics;
  metrics.loss = metrics.grad_norm = std::numeric_limits<double>::quiet_NaN();
  metrics.tokens = options_.train.batch_sequences * options_.sequence_length - batch.global_padding;
  metrics.expert_tokens.assign(static_cast<std::size_t>(model.moe_layer_count() * model.experts), 0);
  metrics.left_out = LeftOut::kNoTarget;
  metrics.finding =
      "no token of the batch is a target (loss_mask is 0 at all of them, or every document is one token long), so "
      "weights and the optimizer's state were left as they are";
  return metrics;
}

}  // namespace sluice
