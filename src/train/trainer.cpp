#include "train/trainer.hpp"

#include "base/error.hpp"
#include "base/range.hpp"
#include "base/trace/recorder.hpp"
#include "ops/buffers/gradients.hpp"
#include "ops/embedding.hpp"
#include "ops/runtime/compute_device.hpp"
#include "ops/runtime/graph_gradient.hpp"
#include "train/load_balancing.hpp"
#include "train/router_biases.hpp"

#include <ATen/ops/isfinite.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

namespace sluice {
namespace {

/// Sum of squares over trained units.
double sum_of_squares(const ShardArena& shards) {
  return ops::sum_of_squares(shards.data(), shards.dtype(), shards.plan().trained_elements(shards.rank()));
}

[[noreturn]] void fail_numerics(std::int64_t number, const std::string& found) {
  fail(ExitCode::kNumerics,
       "step {}: {}. Likely causes: too high a learning rate, or weights that are already broken", number,
       found);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool takes_experts_in_turn(const TrainerOptions& options, const ShardPlan& plan) {
  return options.optimizer.mode.gradients != GradientMode::kFloat32 &&
         finishes_experts_in_turn(plan.dims(), options.batch_sequences, options.micro_batch_sequences);
}

}  // namespace

Trainer::Trainer(Communicator& comm, const ModelConfig& model, const ParameterManifest& manifest,
                 ShardArena& weights, const TrainerOptions& options, OffloadedUnits* offload)
    : comm_(comm),
      manifest_(manifest),
      has_weights_(offload == nullptr),
      options_(options),
      binder_(comm, model, manifest, weights, takes_experts_in_turn(options, weights.plan()), offload),
      stages_(binder_.stages()),
      timer_(binder_.timer()),
      dropout_{options.adapter_dropout, options.adapter_seed},
      decoder_(model, binder_.views(), options.sequence_length, &dropout_),
      store_(weights.plan(), stages_, weights.rank(), options.optimizer.mode.gradients,
             takes_experts_in_turn(options, weights.plan())),
      reducer_(binder_.mesh(), stages_, binder_.views(), store_,
               [this](const GradientPart& sums) { consume(sums); }),
      optimizer_(binder_.mesh(), manifest, weights, options.optimizer, offload),
      routing_(model.layers.size()),
      lowest_layer_(stages_.lowest_trained_layer(weights.plan())),
      tokens_per_step_(options.batch_sequences * options.sequence_length),
      sent_bytes_(binder_.mesh().traffic().sent_bytes) {
  SLUICE_ASSERT(offload == nullptr || releases(), "state on a disk needs released gradients");
  if (model.moe_layer_count() > 0 && options.aux_loss_coefficient != 0)
    probability_grads_ =
        at::zeros({model.moe_layer_count(), model.experts}, ops::compute_options(at::kFloat));
}

StepMetrics Trainer::step(std::int64_t number, const Batch& batch, double learning_rate,
                          double largest_loss) {
  optimizer_.set_steps(number -
                       1);  // not updates: then a run that is resumed after one was left out is the same
  if (batch.global_targets == 0) return step_without_target(batch);
  return releases() ? released_step(number, batch, learning_rate, largest_loss)
                    : kept_step(number, batch, learning_rate, largest_loss);
}

StepMetrics Trainer::step_without_target(const Batch& batch) const {
  const ModelConfig& model = decoder_.config();
  StepMetrics metrics;
  metrics.loss = metrics.grad_norm = kNan;
  metrics.tokens = tokens_per_step_ - batch.global_padding;
  metrics.expert_tokens.assign(static_cast<std::size_t>(model.moe_layer_count() * model.experts), 0);
  metrics.left_out = LeftOut::kNoTarget;
  metrics.finding =
      "no token of the batch is a target (loss_mask is 0 at all of them, or every document is one token "
      "long), so weights and the optimizer's state were left as they are";
  return metrics;
}

StepMetrics Trainer::kept_step(std::int64_t number, const Batch& batch, double learning_rate,
                               double largest_loss) {
  StepMetrics metrics = compute_gradients(number, batch, largest_loss);
  if (metrics.left_out != LeftOut::kNo) return metrics;
  update(metrics.grad_norm, learning_rate);
  move_biases(metrics);
  metrics.phase_seconds[static_cast<std::size_t>(Phase::kOptimizer)] +=
      timer_.take()[static_cast<std::size_t>(Phase::kOptimizer)];
  return metrics;
}

StepMetrics Trainer::compute_gradients(std::int64_t number, const Batch& batch, double largest_loss) {
  SLUICE_ASSERT(!releases(), "gradients are released in this mode");
  StepMetrics metrics;
  std::vector<Pass> passes = begin(number, batch, largest_loss, metrics);
  if (head(passes, batch, metrics)) {
    backward(passes, /*last=*/true);
    finish_metrics(metrics);
  }
  metrics.phase_seconds = timer_.take();
  return metrics;
}

StepMetrics Trainer::released_step(std::int64_t number, const Batch& batch, double learning_rate,
                                   double largest_loss) {
  StepMetrics metrics;
  std::vector<Pass> passes = begin(number, batch, largest_loss, metrics);
  optimizer_.begin_step(learning_rate);
  scale_ = 1;
  if (!clips_globally() || find_norm(passes, batch, metrics)) update_along_backward(passes, batch, metrics);
  if (metrics.left_out == LeftOut::kNo) move_biases(metrics);
  metrics.phase_seconds = timer_.take();
  return metrics;
}

/// A backward pass for the norm alone. False if the update is left out.
bool Trainer::find_norm(std::vector<Pass>& passes, const Batch& batch, StepMetrics& metrics) {
  use_ = Use::kNorm;
  const GradientConsumer observer = std::exchange(observer_, {});
  if (head(passes, batch, metrics)) {
    backward(passes, /*last=*/false);
    finish_metrics(metrics);
  }
  observer_ = observer;
  scale_ = clip_factor(metrics.grad_norm);
  reducer_.begin_step();
  for (Pass& pass : passes) pass.hidden = pass.last_hidden;
  return metrics.left_out == LeftOut::kNo;
}

void Trainer::update_along_backward(std::vector<Pass>& passes, const Batch& batch, StepMetrics& metrics) {
  use_ = Use::kUpdate;
  squares_ = 0;
  const std::int64_t sent_before = metrics.communicated_bytes;
  if (!head(passes, batch, metrics)) return;
  backward(passes, /*last=*/true);
  finish_metrics(metrics);
  metrics.communicated_bytes += sent_before;
}

/// The forward pass of a step.
std::vector<Trainer::Pass> Trainer::begin(std::int64_t number, const Batch& batch, double largest_loss,
                                          StepMetrics& metrics) {
  number_ = number;
  dropout_.step = number;
  largest_loss_ = largest_loss;
  non_finite_ = {};
  gives_up_ = false;
  updated_parts_ = 0;
  metrics.tokens = tokens_per_step_ - batch.global_padding;
  z_scale_ = z_scale(options_.router_z_loss, decoder_.config().moe_layer_count(), metrics.tokens);
  static_cast<void>(timer_.take());
  std::vector<Pass> passes = split(batch);
  reducer_.begin_step();
  squares_ = 0;
  forward(passes);
  reduce_routing(metrics);
  if (releases() && clips_globally())
    for (Pass& pass : passes) pass.last_hidden = pass.hidden;
  return passes;
}

bool Trainer::clips_globally() const {
  return options_.optimizer.mode.clip == ClipRule::kGlobal && options_.optimizer.max_grad_norm > 0;
}

/// Clipping factor of torch.nn.utils.clip_grad_norm_.
double Trainer::clip_factor(double grad_norm) const {
  return clips_globally() ? std::min(1.0, options_.optimizer.max_grad_norm / (grad_norm + 1e-6)) : 1.0;
}

void Trainer::update(double grad_norm, double learning_rate) {
  const PhaseTimer::Scope phase(timer_, Phase::kOptimizer);
  optimizer_.begin_step(learning_rate);
  const double scale = clip_factor(grad_norm);
  for (int unit = 0; unit < optimizer_.layout().units(); ++unit) {
    if (!store_.plan().is_trained(unit)) continue;
    const GradientPart gradient = store_.kept(unit);
    const std::vector<double> squares =
        optimizer_.clips_matrices() ? optimizer_.matrix_squares(gradient) : std::vector<double>();
    optimizer_.update(gradient, squares, scale);
  }
}

/// Consumes this rank's sums of a unit, or of one expert.
void Trainer::consume(const GradientPart& sums) {
  if (observer_) observer_(sums);
  if (store_.mode() == GradientMode::kFloat32) return;
  const PhaseTimer::Scope phase(timer_, Phase::kOptimizer);
  const std::vector<double> squares = optimizer_.matrix_squares(sums);
  const double sum = std::accumulate(squares.begin(), squares.end(), 0.0);
  squares_ += sum;
  if (!std::isfinite(sum) && !non_finite_.found())
    non_finite_ = find_non_finite(store_.plan(), manifest_, sums.unit, sums.elements, sums.data, sums.dtype,
                                  UnitOrder::kBackward);
  store_.keep(sums);
  if (releases() && use_ == Use::kUpdate) update_released(sums, squares);
}

/// Unless a gradient so far was not finite: of this rank, or of any before the last unit that ranks share.
void Trainer::update_released(const GradientPart& sums, std::span<const double> squares) {
  if (store_.plan().sharers(sums.unit) > 1) {  // which come in the same order on all ranks
    std::array<std::int64_t, 1> found{non_finite_.found() ? 1 : 0};
    comm_.all_reduce_max(found);
    gives_up_ = found[0] != 0;
  }
  if (gives_up_ || non_finite_.found()) return;
  optimizer_.update(sums, squares, scale_);
  ++updated_parts_;
}

void Trainer::require_finite_weights() {
  double squares = sum_of_squares(binder_.weights());
  comm_.all_reduce_sum(std::span(&squares, 1));
  if (std::isfinite(squares)) return;
  fail_for_updated(first_of_ranks(comm_, find_non_finite(binder_.weights(), manifest_)));
}

std::vector<Trainer::Pass> Trainer::split(const Batch& batch) const {
  std::vector<Pass> passes;
  std::int64_t token =
      equal_part_begin(options_.batch_sequences, comm_.size(), comm_.rank()) * options_.sequence_length;
  for (MicroBatch& micro_batch : split_batch(batch, options_.micro_batch_sequences)) {
    const std::int64_t tokens = micro_batch.inputs.numel();
    passes.push_back({std::move(micro_batch), token, std::vector<LayerPass>(routing_.size()), {}});
    token += tokens;
  }
  return passes;
}

void Trainer::forward(std::vector<Pass>& passes) {
  rounds_ = binder_.exchange().begin(token_counts(passes));
  binder_.begin_pass(OffloadedUnits::Pass::kForward);
  embed(passes);
  const bool keep_graphs = options_.recompute == Recompute::kNone;
  for (int layer = 0; layer < decoder_.config().layer_count(); ++layer) {
    routing_[static_cast<std::size_t>(layer)] = decoder_.no_routing(layer);
    const StageBinder::GatheredStage bound(binder_, stages_.layers[static_cast<std::size_t>(layer)],
                                           &stages_.after(layer));
    const trace::Span span(trace::Kind::kOperation, "layer", layer);
    const PhaseTimer::Scope phase(timer_, Phase::kForward);
    for (Pass& pass : passes) forward_layer(layer, pass, keep_graphs);
    for (std::size_t round = passes.size(); round < rounds_; ++round)
      decoder_.participate_without_tokens(layer, binder_.exchange());
  }
}

void Trainer::embed(std::vector<Pass>& passes) {
  {
    const PhaseTimer::Scope phase(timer_, Phase::kGather);
    embedding_rows_ = binder_.embedding_rows(inputs_of(passes));
  }
  const StageBinder::GatheredStage bound(binder_, stages_.embed, &stages_.after(-1),
                                         embedding_rows_ ? &*embedding_rows_ : nullptr);
  const PhaseTimer::Scope phase(timer_, Phase::kForward);
  for (Pass& pass : passes) pass.hidden = decoder_.embed(pass.inputs);
}

void Trainer::forward_layer(int index, Pass& pass, bool keep_graph) {
  if (index < lowest_layer_) keep_graph = false;
  dropout_.first_token = pass.first_token;
  const at::AutoGradMode grad_mode(keep_graph);
  LayerPass& layer = pass.layers[static_cast<std::size_t>(index)];
  layer.record.routing.counted = pass.counted;
  layer.record.routing.z_scale = z_scale_;
  layer.input = pass.hidden.detach().requires_grad_(keep_graph);
  const at::Tensor mixed = decoder_.token_mixer(index, layer.input, pass.documents, layer.record.attention);
  const at::Tensor output =
      decoder_.mlp_sublayer(index, mixed, layer.record.routing, routing_[static_cast<std::size_t>(index)],
                            probability_grad(index), binder_.exchange());
  if (keep_graph) layer.output = output;
  if (options_.recompute == Recompute::kLayer) layer.mixed = mixed;
  if (options_.recompute == Recompute::kAll) layer.record.attention = {};
  pass.hidden = output.detach();
  if (index < lowest_layer_) layer = {};  // no gradient comes down to it
}

at::Tensor Trainer::probability_grad(int layer) const {
  const std::vector<MlpKind>& kinds = decoder_.config().layers;
  const auto own = kinds.begin() + layer;
  if (!probability_grads_.defined() || *own != MlpKind::kMoe) return {};
  return probability_grads_.select(0, std::count(kinds.begin(), own, MlpKind::kMoe));
}

void Trainer::reduce_routing(StepMetrics& metrics) {
  const PhaseTimer::Scope phase(timer_, Phase::kReduce);
  RoutingTotals totals = collect(routing_);
  comm_.all_reduce_sum(std::span(totals.expert_tokens));
  comm_.all_reduce_sum(std::span(totals.probability_sums));
  if (z_scale_ != 0) {
    comm_.all_reduce_sum(std::span(&totals.squared_log_sums, 1));
    metrics.z_loss = z_loss(totals, metrics.tokens);
  }
  const bool has_loss = decoder_.config().router.has_balancing_loss();
  metrics.aux_loss = has_loss ? load_balancing_loss(totals, metrics.tokens, options_.aux_loss_scope) : 0;
  if (probability_grads_.defined())
    fill_probability_gradient(totals, metrics.tokens, options_.aux_loss_coefficient, options_.aux_loss_scope,
                              probability_grads_);
  metrics.expert_tokens = std::move(totals.expert_tokens);
}

bool Trainer::head(std::vector<Pass>& passes, const Batch& batch, StepMetrics& metrics) {
  binder_.begin_pass(use_ == Use::kNorm ? OffloadedUnits::Pass::kNorm : OffloadedUnits::Pass::kUpdate);
  const bool goes_on = lowest_layer_ < decoder_.config().layer_count();
  const StageBinder::GatheredStage bound(binder_, stages_.head, goes_on ? &stages_.layers.back() : nullptr);
  reducer_.open(stages_.head);
  double loss = 0;
  {
    const PhaseTimer::Scope phase(timer_, Phase::kBackward);
    for (Pass& pass : passes) {
      dropout_.first_token = pass.first_token;
      Decoder::Head result = decoder_.head(pass.hidden, pass.targets, 1 / batch.loss_divisor(),
                                           /*want_grad=*/true);
      loss += result.losses.sum().item<double>();
      pass.hidden = std::move(result.d_x);
    }
  }
  const PhaseTimer::Scope phase(timer_, Phase::kReduce);
  comm_.all_reduce_sum(std::span(&loss, 1));
  metrics.loss = loss / batch.loss_divisor();
  if (std::isfinite(metrics.loss) && metrics.loss <= largest_loss_) {
    reducer_.reduce(stages_.head);
    return true;
  }
  binder_.drop_next();
  refuse_loss(passes, metrics);
  return false;
}

/// Collective. The step ends before its backward pass.
void Trainer::refuse_loss(const std::vector<Pass>& passes, StepMetrics& metrics) {
  metrics.grad_norm = kNan;
  if (std::isfinite(metrics.loss)) {
    metrics.left_out = LeftOut::kSpike;
    metrics.finding = fmt::format("loss {:.5g} is above {:.5g}", metrics.loss, largest_loss_);
    return;
  }
  metrics.left_out = LeftOut::kNonFinite;
  NonFinite own;  // some ranks may have weights on a disk, and others none
  if (has_weights_) own = find_non_finite(binder_.weights(), manifest_);
  const std::string weight = first_of_ranks(comm_, own);
  metrics.finding = fmt::format("loss {} is not finite, first in {}, so the weights were left as they are",
                                metrics.loss, weight.empty() ? first_broken_activation(passes) : weight);
  if (!weight.empty() || options_.on_nonfinite == OnNonFinite::kStop) fail_numerics(number_, metrics.finding);
}

/// Collective. What layers took in was kept for the backward pass.
std::string Trainer::first_broken_activation(const std::vector<Pass>& passes) {
  const std::int64_t layers = decoder_.config().layer_count();
  std::array<std::int64_t, 1> before_first{-layers};
  for (const Pass& pass : passes)
    for (std::int64_t layer = std::max(lowest_layer_, 0); layer < -before_first[0]; ++layer)
      if (!at::isfinite(pass.layers[static_cast<std::size_t>(layer)].input).all().item<bool>())
        before_first[0] = -layer;
  comm_.all_reduce_max(before_first);
  const std::int64_t first = -before_first[0];
  if (first == 0) return "the embedding";
  if (first == lowest_layer_) return fmt::format("the output of layer {} or one below it", first - 1);
  return first < layers ? fmt::format("the output of layer {}", first - 1)
                        : "the output of the last layer or of the head";
}

void Trainer::backward(std::vector<Pass>& passes, bool last) {
  for (int layer = decoder_.config().layer_count() - 1; layer >= std::max(lowest_layer_, 0); --layer) {
    const Stage& stage = stages_.layers[static_cast<std::size_t>(layer)];
    const StageBinder::GatheredStage bound(binder_, stage,
                                           layer > lowest_layer_ ? stages_.before(layer) : nullptr);
    reducer_.open(stage);
    {
      const trace::Span span(trace::Kind::kOperation, "layer backward", layer);
      const PhaseTimer::Scope phase(timer_, Phase::kBackward);
      for (Pass& pass : passes) backward_layer(layer, pass, last);
      for (std::size_t round = passes.size(); round < rounds_; ++round)
        decoder_.participate_without_tokens_backward(layer, binder_.exchange());
    }
    const PhaseTimer::Scope phase(timer_, Phase::kReduce);
    reducer_.reduce(stage);
  }
  if (lowest_layer_ < 0) embed_backward(passes);
}

void Trainer::embed_backward(const std::vector<Pass>& passes) {
  at::Tensor grads;
  if (embedding_rows_)
    grads = reducer_.open_rows(stages_.embed, *embedding_rows_);
  else
    reducer_.open(stages_.embed);
  {
    const PhaseTimer::Scope phase(timer_, Phase::kBackward);
    for (const Pass& pass : passes) {
      if (embedding_rows_)
        decoder_.embed_backward(pass.inputs, pass.hidden, {embedding_rows_->rows(), grads});
      else
        decoder_.embed_backward(pass.inputs, pass.hidden);
    }
  }
  const PhaseTimer::Scope phase(timer_, Phase::kReduce);
  reducer_.reduce(stages_.embed);
}

void Trainer::backward_layer(int index, Pass& pass, bool last) {
  const at::AutoGradMode grad_mode(true);
  dropout_.first_token = pass.first_token;
  LayerPass& kept = pass.layers[static_cast<std::size_t>(index)];
  LayerPass layer = last ? std::exchange(kept, {}) : kept;
  pass.hidden = layer.output.defined() ? ops::graph_gradient(layer.output, layer.input, pass.hidden, !last)
                                       : recompute_backward(index, pass, layer);
}

at::Tensor Trainer::recompute_backward(int index, const Pass& pass, LayerPass& layer) {
  const at::Tensor input = layer.input.requires_grad_(true);
  const auto mix = [&](ops::Purpose purpose) {
    return decoder_.token_mixer(index, input, pass.documents, layer.record.attention, purpose);
  };
  at::Tensor first_half;
  if (!layer.mixed.defined()) first_half = mix(ops::Purpose::kOutput);
  const at::Tensor mixed = (layer.mixed.defined() ? layer.mixed : first_half.detach()).requires_grad_(true);
  const at::Tensor output =
      decoder_.mlp_sublayer(index, mixed, layer.record.routing, routing_[static_cast<std::size_t>(index)],
                            probability_grad(index), binder_.exchange(), pass.hidden);
  // While the tokens and their gradients travel; without them a half's graph at a time is enough.
  const bool is_moe = decoder_.config().layers[static_cast<std::size_t>(index)] == MlpKind::kMoe;
  if (!first_half.defined() && is_moe && binder_.exchange().travels()) first_half = mix(ops::Purpose::kGraph);
  const at::Tensor d_mixed = ops::graph_gradient(output, mixed, pass.hidden);
  if (!first_half.defined()) first_half = mix(ops::Purpose::kGraph);
  return ops::graph_gradient(first_half, input, d_mixed);
}

void Trainer::move_biases(const StepMetrics& metrics) {
  if (options_.router_bias_update_rate == 0) return;
  optimizer_.announce_update(static_cast<int>(store_.plan().layouts().units.size()));
  move_router_biases(binder_.weights(), manifest_, metrics.expert_tokens,
                     static_cast<float>(options_.router_bias_update_rate));
}

void Trainer::finish_metrics(StepMetrics& metrics) {
  const PhaseTimer::Scope phase(timer_, Phase::kReduce);
  reducer_.finish();
  const std::int64_t sent = binder_.mesh().traffic().sent_bytes;
  const double squares = store_.mode() == GradientMode::kFloat32 ? sum_of_squares(store_.shards()) : squares_;
  std::array<double, 2> sums{squares, static_cast<double>(sent - std::exchange(sent_bytes_, sent))};
  comm_.all_reduce_sum(std::span<double>(sums));
  metrics.communicated_bytes = static_cast<std::int64_t>(sums[1]);
  metrics.grad_norm = std::sqrt(sums[0]);
  if (!std::isfinite(metrics.grad_norm)) refuse_gradients(metrics);
}

/// Collective.
void Trainer::refuse_gradients(StepMetrics& metrics) {
  const NonFinite own = store_.mode() == GradientMode::kFloat32
                            ? find_non_finite(store_.shards(), manifest_, UnitOrder::kBackward)
                            : non_finite_;
  const std::string first = first_of_ranks(comm_, own);
  std::array<std::int64_t, 1> updated{updated_parts_};
  comm_.all_reduce_max(updated);
  metrics.left_out = LeftOut::kNonFinite;
  metrics.finding = fmt::format(
      "loss {} and gradient norm {}: not finite, first in the gradient of {}, so {}", metrics.loss,
      metrics.grad_norm, first,
      updated[0] == 0
          ? "the weights were left as they are"
          : "that and all below it were left as they are; layers above it were updated in this step "
            "already, as gradients are released");
  if (options_.on_nonfinite == OnNonFinite::kStop) fail_numerics(number_, metrics.finding);
}

at::Tensor Trainer::first_logits(const Batch& batch) {
  const double rate = std::exchange(dropout_.rate, 0);
  Batch first = batch;
  first.sequences = comm_.rank() == 0 ? 1 : 0;
  SLUICE_ASSERT(first.sequences <= batch.sequences, "rank 0 has no sequence");
  std::vector<Pass> passes = split(first);
  forward(passes);
  const StageBinder::GatheredStage bound(binder_, stages_.head, nullptr);
  dropout_.rate = rate;
  return passes.empty() ? at::Tensor() : decoder_.logits(passes.front().hidden[0]);
}

}  // namespace sluice
