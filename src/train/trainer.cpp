#include "train/trainer.hpp"

#include "base/error.hpp"
#include "ops/buffers/gradients.hpp"
#include "ops/embedding.hpp"
#include "ops/runtime/compute_device.hpp"
#include "train/load_balancing.hpp"

#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace sluice {
namespace {

double sum_of_squares(const ShardArena& shards) {
  return ops::sum_of_squares(reinterpret_cast<const float*>(shards.data()),
                             shards.plan().arena_elements(shards.rank()));
}

at::Tensor gradient(const at::Tensor& output, const at::Tensor& input, const at::Tensor& d_output) {
  return torch::autograd::grad({output}, {input}, {d_output}).front();
}

}  // namespace

Trainer::Trainer(Communicator& comm, const ModelConfig& model, const ParameterManifest& manifest,
                 ShardArena& weights, const TrainerOptions& options)
    : comm_(comm),
      options_(options),
      binder_(comm, model, manifest, weights),
      stages_(binder_.stages()),
      timer_(binder_.timer()),
      decoder_(model, binder_.views(), options.sequence_length),
      gradients_(weights.plan(), weights.rank(), DType::kFloat32, "gradient shards"),
      reducer_(binder_.mesh(), stages_, binder_.views(), gradients_),
      optimizer_(manifest, weights, options.optimizer),
      routing_(model.layers.size()),
      tokens_per_step_(options.batch_sequences * options.sequence_length),
      sent_bytes_(binder_.mesh().traffic().sent_bytes) {
  if (model.moe_layer_count() > 0 && options.aux_loss_coefficient != 0)
    probability_grad_ = at::zeros({model.experts}, ops::compute_options(at::kFloat));
}

StepMetrics Trainer::step(std::int64_t number, const Batch& batch, double learning_rate) {
  StepMetrics metrics = compute_gradients(number, batch);
  update(metrics.grad_norm, learning_rate);
  metrics.phase_seconds[static_cast<std::size_t>(Phase::kOptimizer)] +=
      timer_.take()[static_cast<std::size_t>(Phase::kOptimizer)];
  return metrics;
}

StepMetrics Trainer::compute_gradients(std::int64_t number, const Batch& batch) {
  StepMetrics metrics;
  static_cast<void>(timer_.take());
  SLUICE_ASSERT(batch.global_targets > 0, "a batch without targets");
  std::vector<Pass> passes = split(batch);
  reducer_.begin_step();
  forward(passes);
  reduce_routing(metrics);
  const double loss_sum = head(passes, 1 / static_cast<double>(batch.global_targets));
  backward(passes);
  finish_metrics(loss_sum, batch.global_targets, metrics);
  require_finite(number, metrics);
  metrics.phase_seconds = timer_.take();
  return metrics;
}

void Trainer::update(double grad_norm, double learning_rate) {
  const PhaseTimer::Scope phase(timer_, Phase::kOptimizer);
  const double limit = options_.max_grad_norm;
  // As torch.nn.utils.clip_grad_norm_.
  const double scale = limit > 0 ? std::min(1.0, limit / (grad_norm + 1e-6)) : 1.0;
  optimizer_.update(gradients_, learning_rate, scale);
}

void Trainer::require_finite_weights() {
  double squares = sum_of_squares(optimizer_.master());
  comm_.all_reduce_sum(std::span(&squares, 1));
  if (!std::isfinite(squares))
    fail(ExitCode::kNumerics,
         "the last update has made weights that are not finite. Likely cause: too high a learning rate");
}

std::vector<Trainer::Pass> Trainer::split(const Batch& batch) const {
  std::vector<Pass> passes;
  for (MicroBatch& micro_batch : split_batch(batch, options_.micro_batch_sequences))
    passes.push_back({std::move(micro_batch), std::vector<LayerPass>(routing_.size())});
  return passes;
}

void Trainer::forward(std::vector<Pass>& passes) {
  rounds_ = binder_.exchange().begin(token_counts(passes));
  embed(passes);
  const bool keep_graphs = options_.recompute == Recompute::kNone;
  for (int layer = 0; layer < decoder_.config().layer_count(); ++layer) {
    routing_[static_cast<std::size_t>(layer)] = decoder_.no_routing(layer);
    const StageBinder::GatheredStage bound(binder_, stages_.layers[static_cast<std::size_t>(layer)],
                                           &stages_.after(layer));
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
  const at::AutoGradMode grad_mode(keep_graph);
  LayerPass& layer = pass.layers[static_cast<std::size_t>(index)];
  layer.input = pass.hidden.detach().requires_grad_(keep_graph);
  const at::Tensor mixed = decoder_.token_mixer(index, layer.input, pass.documents, layer.record.attention);
  const at::Tensor output =
      decoder_.mlp_sublayer(index, mixed, layer.record.routing, routing_[static_cast<std::size_t>(index)],
                            probability_grad_, binder_.exchange());
  if (keep_graph) layer.output = output;
  if (options_.recompute == Recompute::kLayer) layer.mixed = mixed;
  if (options_.recompute == Recompute::kAll) layer.record.attention = {};
  pass.hidden = output.detach();
}

void Trainer::reduce_routing(StepMetrics& metrics) {
  const PhaseTimer::Scope phase(timer_, Phase::kReduce);
  RoutingTotals totals = collect(routing_);
  comm_.all_reduce_sum(std::span(totals.expert_tokens));
  comm_.all_reduce_sum(std::span(totals.probability_sums));
  metrics.aux_loss = load_balancing_loss(totals, tokens_per_step_);
  if (probability_grad_.defined())
    fill_probability_gradient(totals, tokens_per_step_, options_.aux_loss_coefficient, probability_grad_);
  metrics.expert_tokens = std::move(totals.expert_tokens);
}

double Trainer::head(std::vector<Pass>& passes, double loss_scale) {
  const StageBinder::GatheredStage bound(binder_, stages_.head, &stages_.layers.back());
  reducer_.open(stages_.head);
  double loss_sum = 0;
  {
    const PhaseTimer::Scope phase(timer_, Phase::kBackward);
    for (Pass& pass : passes) {
      Decoder::Head result = decoder_.head(pass.hidden, pass.targets, loss_scale, /*want_grad=*/true);
      loss_sum += result.losses.sum().item<double>();
      pass.hidden = std::move(result.d_x);
    }
  }
  const PhaseTimer::Scope phase(timer_, Phase::kReduce);
  reducer_.reduce(stages_.head);
  return loss_sum;
}

void Trainer::backward(std::vector<Pass>& passes) {
  for (int layer = decoder_.config().layer_count() - 1; layer >= 0; --layer) {
    const Stage& stage = stages_.layers[static_cast<std::size_t>(layer)];
    const StageBinder::GatheredStage bound(binder_, stage, stages_.before(layer));
    reducer_.open(stage);
    {
      const PhaseTimer::Scope phase(timer_, Phase::kBackward);
      for (Pass& pass : passes) backward_layer(layer, pass);
      for (std::size_t round = passes.size(); round < rounds_; ++round)
        decoder_.participate_without_tokens_backward(layer, binder_.exchange());
    }
    const PhaseTimer::Scope phase(timer_, Phase::kReduce);
    reducer_.reduce(stage);
  }
  embed_backward(passes);
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

void Trainer::backward_layer(int index, Pass& pass) {
  const at::AutoGradMode grad_mode(true);
  LayerPass layer = std::exchange(pass.layers[static_cast<std::size_t>(index)], {});
  pass.hidden = layer.output.defined() ? gradient(layer.output, layer.input, pass.hidden)
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
                            probability_grad_, binder_.exchange(), pass.hidden);
  // While the tokens and their gradients travel; without them a half's graph at a time is enough.
  const bool is_moe = decoder_.config().layers[static_cast<std::size_t>(index)] == MlpKind::kMoe;
  if (!first_half.defined() && is_moe && binder_.exchange().travels()) first_half = mix(ops::Purpose::kGraph);
  const at::Tensor d_mixed = gradient(output, mixed, pass.hidden);
  if (!first_half.defined()) first_half = mix(ops::Purpose::kGraph);
  return gradient(first_half, input, d_mixed);
}

void Trainer::finish_metrics(double local_loss_sum, std::int64_t targets, StepMetrics& metrics) {
  const PhaseTimer::Scope phase(timer_, Phase::kReduce);
  reducer_.finish();
  const std::int64_t sent = binder_.mesh().traffic().sent_bytes;
  std::array<double, 3> sums{local_loss_sum, sum_of_squares(gradients_),
                             static_cast<double>(sent - std::exchange(sent_bytes_, sent))};
  comm_.all_reduce_sum(std::span<double>(sums));
  metrics.communicated_bytes = static_cast<std::int64_t>(sums[2]);
  metrics.tokens = tokens_per_step_;
  metrics.loss = sums[0] / static_cast<double>(targets);
  metrics.grad_norm = std::sqrt(sums[1]);
}

void Trainer::require_finite(std::int64_t number, const StepMetrics& metrics) {
  if (std::isfinite(metrics.loss) && std::isfinite(metrics.grad_norm)) return;
  fail(ExitCode::kNumerics,
       "step {}: loss {} and gradient norm {}: not finite, so the weights were left as they are. Likely "
       "causes: too high a learning rate, or weights that are already broken",
       number, metrics.loss, metrics.grad_norm);
}

at::Tensor Trainer::first_logits(const Batch& batch) {
  Batch first = batch;
  first.sequences = comm_.rank() == 0 ? 1 : 0;
  SLUICE_ASSERT(first.sequences <= batch.sequences, "rank 0 has no sequence");
  std::vector<Pass> passes = split(first);
  forward(passes);
  const StageBinder::GatheredStage bound(binder_, stages_.head, nullptr);
  return passes.empty() ? at::Tensor() : decoder_.logits(passes.front().hidden[0]);
}

}  // namespace sluice
