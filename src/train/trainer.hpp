// Trainer: training over sharded weights, and what lasts from step to step. The step itself is in
// train_step.cpp.
#pragma once

#include "comm/communicator.hpp"
#include "data/batch_source.hpp"
#include "decoder/decoder.hpp"
#include "shard/arena.hpp"
#include "train/gradients/gradient_reducer.hpp"
#include "train/gradients/gradient_sink.hpp"
#include "train/layer_recompute.hpp"
#include "train/objective/objective.hpp"
#include "train/optimizer.hpp"
#include "train/stage_binder.hpp"
#include "train/step_metrics.hpp"
#include "train/trainer_options.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

class Trainer {
 public:
  /// `weights` are trained in place. Allocates gather slots, the gradient buffer, gradients and the
  /// optimizer's state, and nothing that stays after that. Paged weights need released gradients. All
  /// references but `options` must outlive the trainer.
  Trainer(Communicator& comm, const ModelConfig& model, const ParameterManifest& manifest,
          ShardArena& weights, const TrainerOptions& options);

  /// Collective over the communicator. Makes one step on this rank's share of the batch, which may be empty;
  /// `number` is 1 for the first step. Exact clipping by the global norm takes a second backward pass where
  /// gradients are released.
  ///
  /// Skips the update, on every rank alike, if the loss is above `largest_loss`, or if the loss or gradients
  /// are not finite and the options say kSkip. With kStop, or if weights are not finite, throws
  /// Error(kNumerics) with the step's number and the first such tensor. Nothing is updated before that is
  /// known, except where gradients are released without a global norm: each gradient is then checked before
  /// its own update, no rank updates what comes after the first that is not finite, and earlier updates
  /// remain.
  ///
  /// A batch without a target has no loss, whose mean would be 0/0: nothing is computed, loss and norm are
  /// NaN, and weights and the optimizer's state stay as they are, without weight decay.
  StepMetrics step(std::int64_t number, const Batch& batch, double learning_rate,
                   double largest_loss = std::numeric_limits<double>::infinity());

  /// Sets `observer`, which sees all gradients of a step, as GradientSink::observe() says.
  void observe_gradients(GradientConsumer observer) { sink_->observe(std::move(observer)); }

  /// Collective over the communicator. Error(kNumerics), on every rank alike, if the last update has made
  /// weights NaN or infinite; after earlier updates the next step finds it.
  void require_finite_weights();

  /// Collective over the communicator. Logits [L, vocabulary] float32 of the first sequence of rank 0's
  /// batch, on rank 0; undefined on other ranks.
  [[nodiscard]] at::Tensor first_logits(const Batch& batch);

  /// This rank's shards of the last step's gradients, before clipping: of the loss, and of the router's own
  /// losses times their coefficients. Error(kInternal) where gradients are released.
  [[nodiscard]] const ShardArena& gradients() const { return store_.shards(); }
  /// The binder, for passes between steps.
  [[nodiscard]] StageBinder& binder() { return binder_; }
  [[nodiscard]] const Optimizer& optimizer() const { return optimizer_; }
  [[nodiscard]] Optimizer& optimizer() { return optimizer_; }

 private:
  struct StepState;  // defined in train_step.cpp

  [[nodiscard]] std::vector<TrainedMicroBatch> split(const Batch& batch) const;
  [[nodiscard]] StepMetrics step_without_target(const Batch& batch) const;
  [[nodiscard]] StepState begin_step(std::int64_t number, const Batch& batch, double largest_loss);
  void forward(StepState& step);
  [[nodiscard]] std::unique_ptr<Objective> objective_of(const Batch& batch) const;
  void reduce_routing(StepState& step);
  void begin_backward(StepState& step, GradientUse use);
  [[nodiscard]] bool head(StepState& step);
  void reference_losses(StepState& step);
  [[nodiscard]] std::vector<double> head_losses(StepState& step);
  [[nodiscard]] ops::BesideTargets beside_targets(const Batch& batch, const MicroBatch& micro_batch);
  void backward(StepState& step);
  void embed_backward(StepState& step);
  void reduce_norm(StepState& step);
  void refuse_loss(StepState& step);
  void refuse_gradients(StepState& step);
  void move_biases(const StepMetrics& metrics);
  [[nodiscard]] double clip_factor(double grad_norm) const;

  Communicator& comm_;
  const ParameterManifest& manifest_;
  TrainerOptions options_;
  StageBinder binder_;
  const StagePlan& stages_;
  PhaseTimer& timer_;
  ops::Dropout dropout_;
  Decoder decoder_;
  std::optional<Decoder> reference_;  ///< the model without adapters, if tokens pass through it too
  GradientStore store_;
  Optimizer optimizer_;
  std::unique_ptr<GradientSink> sink_;
  GradientReducer reducer_;
  int lowest_layer_;  ///< the lowest layer that training changes; -1: the embedding
  RecomputedLayers layers_;
  std::int64_t
      counted_bytes_;  ///< bytes sent by this rank, of which steps have told, or which are not theirs
  std::int64_t sent_after_step_;  ///< bytes that this rank had sent at the end of the last step
};

}  // namespace sluice
