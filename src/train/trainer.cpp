#include "train/trainer.hpp"

#include "base/error.hpp"
#include "base/range.hpp"
#include "ops/buffers/gradients.hpp"
#include "plan/gradient_memory.hpp"
#include "train/layer_walk.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace sluice {
namespace {

ExpertGradients expert_gradients_of(const TrainerOptions& options, const ShardPlan& plan) {
  if (options.optimizer.gradients == GradientMode::kFloat32) return ExpertGradients::kTogether;
  return expert_gradients(plan.dims(), options.train.batch_sequences, options.train.micro_batch_sequences);
}

bool clips_globally(const OptimizerSettings& settings) {
  return settings.clip == ClipRule::kGlobal && settings.max_grad_norm > 0;
}

}  // namespace

Trainer::Trainer(Communicator& comm, const ModelConfig& model, const ParameterManifest& manifest,
                 ShardArena& weights, const TrainerOptions& options)
    : comm_(comm),
      manifest_(manifest),
      options_(options),
      binder_(comm, model, manifest, weights, expert_gradients_of(options, weights.plan())),
      stages_(binder_.stages()),
      timer_(binder_.timer()),
      dropout_{options.adapter_dropout, options.adapter_seed},
      decoder_(model, binder_.views(), options.sequence_length, binder_.vocabulary(), &dropout_),
      store_(weights.plan(), stages_, weights.rank(), options.optimizer.gradients,
             expert_gradients_of(options, weights.plan()), weights.memory()),
      optimizer_(binder_.mesh(), manifest, weights, options.optimizer),
      sink_(make_gradient_sink(options.optimizer.gradients, {comm, manifest, store_, optimizer_, timer_,
                                                             clips_globally(options.optimizer)})),
      reducer_(binder_.mesh(), stages_, binder_.views(), store_,
               [this](const GradientPart& sums) { sink_->take(sums); }),
      lowest_layer_(stages_.lowest_trained_layer(weights.plan())),
      layers_(decoder_, options.train.recompute, lowest_layer_, binder_.exchange()),
      counted_bytes_(binder_.mesh().traffic().sent_bytes),
      sent_after_step_(counted_bytes_) {
  SLUICE_ASSERT(weights.plan().world() > 1 || weights.plan().layouts().vocabulary == Vocabulary::kGathered ||
                    options.optimizer.gradients != GradientMode::kRelease,
                "one rank has units by rows, of which a stage may have only one to release");
  SLUICE_ASSERT(weights.paged() == nullptr || options.optimizer.gradients == GradientMode::kRelease,
                "optimizer state on a disk needs released gradients");
  if (options.prefer && options.prefer->walks_reference())
    reference_.emplace(model, binder_.views(), options.sequence_length, binder_.vocabulary(), nullptr,
                       Adapters::kLeftOut);
}

/// Factor by which gradients are clipped, as torch.nn.utils.clip_grad_norm_ has it.
double Trainer::clip_factor(double grad_norm) const {
  if (!clips_globally(options_.optimizer)) return 1.0;
  return std::min(1.0, options_.optimizer.max_grad_norm / (grad_norm + 1e-6));
}

void Trainer::require_finite_weights() {
  const ShardArena& weights = binder_.weights();
  const Range whole = weights.plan().layouts().trained_buffers;
  double squares =
      ops::sum_of_squares(weights.data(), weights.dtype(), weights.plan().trained_elements(weights.rank())) +
      ops::sum_of_squares(weights.buffers() + whole.begin, whole.count());
  comm_.all_reduce_sum(std::span(&squares, 1));
  if (std::isfinite(squares)) return;
  fail_for_updated(first_of_ranks(comm_, find_non_finite(weights, manifest_)));
}

std::vector<TrainedMicroBatch> Trainer::split(const Batch& batch) const {
  std::vector<TrainedMicroBatch> out;
  std::int64_t token =
      equal_part_begin(options_.train.batch_sequences, comm_.size(), comm_.rank()) * options_.sequence_length;
  const ChosenPrompts prompts = options_.prefer ? chosen_prompts(*options_.prefer) : ChosenPrompts::kMasked;
  for (MicroBatch& micro_batch :
       split_batch(batch, options_.train.micro_batch_sequences, decoder_.device(), prompts)) {
    const std::int64_t tokens = micro_batch.inputs.numel();
    if (micro_batch.teacher) micro_batch.teacher->weight = options_.distil->weight;
    out.push_back(
        {std::move(micro_batch), token, std::vector<LayerActivations>(decoder_.config().layers.size())});
    token += tokens;
  }
  return out;
}

/// Collective over the communicator. The objective of a step on this batch.
std::unique_ptr<Objective> Trainer::objective_of(const Batch& batch) const {
  if (options_.distil)
    return std::make_unique<DistilObjective>(batch.loss_divisor(), batch.teacher_facts.is_exact);
  if (!options_.prefer) return std::make_unique<CrossEntropyObjective>(batch.loss_divisor());
  PreferenceBatch pairs(*options_.prefer, batch);
  PreferenceSums counts = pairs.counts();
  comm_.all_reduce_sum(std::span<double>(counts));
  return std::make_unique<PreferenceObjective>(*options_.prefer, std::move(pairs), counts,
                                               options_.train.micro_batch_sequences);
}

at::Tensor Trainer::first_logits(const Batch& batch) {
  Batch first = batch;
  first.sequences = comm_.rank() == 0 ? 1 : 0;
  SLUICE_ASSERT(first.sequences <= batch.sequences, "rank 0 has no sequence");
  const std::vector<MicroBatch> micro_batches = split_batch(first, 1, decoder_.device());
  const double rate = std::exchange(dropout_.rate, 0);
  const at::NoGradGuard no_grad;
  LayerWalk walk(binder_, decoder_, inputs_of(micro_batches));
  const std::vector<at::Tensor> hidden =
      walk.forward(inference_pass(decoder_, micro_batches, binder_.exchange()).compute);
  const StageBinder::GatheredStage bound = walk.head();
  dropout_.rate = rate;
  const at::Tensor logits = decoder_.logits(hidden.empty() ? decoder_.no_tokens() : hidden.front()[0]);
  return hidden.empty() ? at::Tensor() : logits;
}

}  // namespace sluice
