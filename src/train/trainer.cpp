#include "train/trainer.hpp"

#include "base/error.hpp"
#include "ops/optimizer.hpp"
#include "train/load_balancing.hpp"

#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace sluice {

/// A stage's units, gathered and bound to the views for as long as this lives.
class Trainer::BoundStage {
 public:
  BoundStage(Trainer& trainer, const Stage& stage) : trainer_(trainer), stage_(stage) {
    const PhaseTimer::Scope phase(trainer.timer_, Phase::kGather);
    const std::vector<std::byte*> units = trainer.gatherer_.gather(stage);
    for (std::size_t i = 0; i < units.size(); ++i) trainer.views_.bind(stage.units[i], units[i]);
  }
  ~BoundStage() {
    for (const int unit : stage_.units) trainer_.views_.unbind(unit);
    trainer_.gatherer_.release();
  }
  BoundStage(const BoundStage&) = delete;
  BoundStage& operator=(const BoundStage&) = delete;

 private:
  Trainer& trainer_;
  const Stage& stage_;
};

Trainer::Trainer(Communicator& comm, const ModelConfig& model, const ParameterManifest& manifest,
                 ShardArena& weights, const JobConfig& job)
    : comm_(comm),
      job_(job),
      stages_(make_stage_plan(weights.plan().layouts(), model.tie_word_embeddings)),
      views_(manifest, weights.plan().layouts(), weights.dtype()),
      decoder_(model, views_, job.data.sequence_length),
      gatherer_(comm, weights, stages_),
      gradients_(weights.plan(), weights.rank(), DType::kFloat32, "gradient shards"),
      reducer_(comm, stages_, views_, gradients_),
      optimizer_(manifest, weights, job.optimizer),
      routing_(model.layers.size()),
      tokens_per_step_(job.train.batch_sequences * job.data.sequence_length) {
  if (model.moe_layer_count() > 0 && job.train.aux_loss_coefficient != 0)
    probability_grad_ = at::zeros({model.experts}, at::kFloat);
}

StepMetrics Trainer::step(const Batch& batch, double learning_rate) {
  StepMetrics metrics = compute_gradients(batch);
  update(metrics.grad_norm, learning_rate);
  metrics.phase_seconds[static_cast<std::size_t>(Phase::kOptimizer)] +=
      timer_.take()[static_cast<std::size_t>(Phase::kOptimizer)];
  return metrics;
}

StepMetrics Trainer::compute_gradients(const Batch& batch) {
  StepMetrics metrics;
  static_cast<void>(timer_.take());
  std::vector<MicroBatch> micro_batches = split(batch);
  reducer_.begin_step();
  forward(micro_batches);
  reduce_routing(metrics);
  const double loss_sum = head(micro_batches);
  backward(micro_batches);
  finish_metrics(loss_sum, metrics);
  metrics.phase_seconds = timer_.take();
  return metrics;
}

void Trainer::update(double grad_norm, double learning_rate) {
  const PhaseTimer::Scope phase(timer_, Phase::kOptimizer);
  const double limit = job_.optimizer.max_grad_norm;
  // As torch.nn.utils.clip_grad_norm_.
  const double scale = limit > 0 ? std::min(1.0, limit / (grad_norm + 1e-6)) : 1.0;
  optimizer_.update(gradients_, learning_rate, scale);
}

std::vector<Trainer::MicroBatch> Trainer::split(const Batch& batch) const {
  std::vector<MicroBatch> micro_batches;
  const at::Tensor ids = torch::from_blob(const_cast<std::int64_t*>(batch.ids.data()),
                                          {batch.sequences, batch.length + 1}, at::kLong);
  for (std::int64_t first = 0; first < batch.sequences; first += job_.train.micro_batch_sequences) {
    const std::int64_t count = std::min(job_.train.micro_batch_sequences, batch.sequences - first);
    const at::Tensor rows = ids.narrow(0, first, count);
    MicroBatch& added = micro_batches.emplace_back();
    added.inputs = rows.narrow(1, 0, batch.length).contiguous();
    added.targets = rows.narrow(1, 1, batch.length).contiguous();
    added.passes.resize(routing_.size());
  }
  return micro_batches;
}

void Trainer::forward(std::vector<MicroBatch>& micro_batches) {
  {
    const BoundStage bound(*this, stages_.embed);
    const PhaseTimer::Scope phase(timer_, Phase::kForward);
    for (MicroBatch& micro_batch : micro_batches) micro_batch.hidden = decoder_.embed(micro_batch.inputs);
  }
  const bool keep_graphs = job_.train.recompute == Recompute::kNone;
  for (int layer = 0; layer < decoder_.config().layer_count(); ++layer) {
    routing_[static_cast<std::size_t>(layer)] = decoder_.no_routing(layer);
    const BoundStage bound(*this, stages_.layers[static_cast<std::size_t>(layer)]);
    const PhaseTimer::Scope phase(timer_, Phase::kForward);
    for (MicroBatch& micro_batch : micro_batches) forward_layer(layer, micro_batch, keep_graphs);
  }
}

void Trainer::forward_layer(int layer, MicroBatch& micro_batch, bool keep_graph) {
  const at::AutoGradMode grad_mode(keep_graph);
  LayerPass& pass = micro_batch.passes[static_cast<std::size_t>(layer)];
  pass.input = micro_batch.hidden.detach().requires_grad_(keep_graph);
  const at::Tensor output = decoder_.layer(layer, pass.input, pass.routing,
                                           routing_[static_cast<std::size_t>(layer)], probability_grad_);
  if (keep_graph) pass.output = output;
  micro_batch.hidden = output.detach();
}

void Trainer::reduce_routing(StepMetrics& metrics) {
  const PhaseTimer::Scope phase(timer_, Phase::kReduce);
  RoutingTotals totals = collect(routing_);
  comm_.all_reduce_sum(std::span(totals.expert_tokens));
  comm_.all_reduce_sum(std::span(totals.probability_sums));
  metrics.aux_loss = load_balancing_loss(totals, tokens_per_step_);
  if (probability_grad_.defined())
    fill_probability_gradient(totals, tokens_per_step_, job_.train.aux_loss_coefficient, probability_grad_);
  metrics.expert_tokens = std::move(totals.expert_tokens);
}

double Trainer::head(std::vector<MicroBatch>& micro_batches) {
  const BoundStage bound(*this, stages_.head);
  reducer_.open(stages_.head);
  double loss_sum = 0;
  {
    const PhaseTimer::Scope phase(timer_, Phase::kBackward);
    for (MicroBatch& micro_batch : micro_batches) {
      const double scale = 1 / static_cast<double>(tokens_per_step_);
      Decoder::Head result =
          decoder_.head(micro_batch.hidden, micro_batch.targets, scale, /*want_grad=*/true);
      loss_sum += result.loss_sum;
      micro_batch.hidden = std::move(result.d_x);
    }
  }
  const PhaseTimer::Scope phase(timer_, Phase::kReduce);
  reducer_.reduce(stages_.head);
  return loss_sum;
}

void Trainer::backward(std::vector<MicroBatch>& micro_batches) {
  for (int layer = decoder_.config().layer_count() - 1; layer >= 0; --layer) {
    const Stage& stage = stages_.layers[static_cast<std::size_t>(layer)];
    const BoundStage bound(*this, stage);
    reducer_.open(stage);
    {
      const PhaseTimer::Scope phase(timer_, Phase::kBackward);
      for (MicroBatch& micro_batch : micro_batches) backward_layer(layer, micro_batch);
    }
    const PhaseTimer::Scope phase(timer_, Phase::kReduce);
    reducer_.reduce(stage);
  }
  reducer_.open(stages_.embed);
  {
    const PhaseTimer::Scope phase(timer_, Phase::kBackward);
    for (const MicroBatch& micro_batch : micro_batches)
      decoder_.embed_backward(micro_batch.inputs, micro_batch.hidden);
  }
  const PhaseTimer::Scope phase(timer_, Phase::kReduce);
  reducer_.reduce(stages_.embed);
}

void Trainer::backward_layer(int layer, MicroBatch& micro_batch) {
  const at::AutoGradMode grad_mode(true);
  LayerPass pass = std::exchange(micro_batch.passes[static_cast<std::size_t>(layer)], {});
  if (!pass.output.defined()) {
    pass.input.requires_grad_(true);
    pass.output = decoder_.layer(layer, pass.input, pass.routing, routing_[static_cast<std::size_t>(layer)],
                                 probability_grad_);
  }
  micro_batch.hidden = torch::autograd::grad({pass.output}, {pass.input}, {micro_batch.hidden}).front();
}

void Trainer::finish_metrics(double local_loss_sum, StepMetrics& metrics) {
  const PhaseTimer::Scope phase(timer_, Phase::kReduce);
  const auto* gradient = reinterpret_cast<const float*>(gradients_.data());
  const std::int64_t elements = gradients_.plan().arena_elements(gradients_.rank());
  std::array<double, 2> sums{local_loss_sum, ops::sum_of_squares(gradient, elements)};
  comm_.all_reduce_sum(std::span<double>(sums));
  metrics.tokens = tokens_per_step_;
  metrics.loss = sums[0] / static_cast<double>(tokens_per_step_);
  metrics.grad_norm = std::sqrt(sums[1]);
  if (!std::isfinite(metrics.loss) || !std::isfinite(metrics.grad_norm))
    fail(ExitCode::kNumerics,
         "loss {} and gradient norm {}: not finite, so the weights were left as they are. Likely causes: "
         "too high a learning rate, or weights that are already broken",
         metrics.loss, metrics.grad_norm);
}

at::Tensor Trainer::first_logits(const Batch& batch) {
  Batch first = batch;
  first.sequences = comm_.rank() == 0 ? 1 : 0;
  SLUICE_ASSERT(first.sequences <= batch.sequences, "rank 0 has no sequence");
  std::vector<MicroBatch> micro_batches = split(first);
  forward(micro_batches);
  const BoundStage bound(*this, stages_.head);
  return micro_batches.empty() ? at::Tensor() : decoder_.logits(micro_batches.front().hidden[0]);
}

}  // namespace sluice
