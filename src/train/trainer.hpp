// One training step over sharded weights, written out layer by layer.
//
// Layers come first, micro-batches second: a layer's units are gathered once per pass and every micro-batch
// of the step goes through them, so a step gathers each unit twice and reduces it once, whatever the number
// of micro-batches. What is kept from forward to backward is each layer's input; backward runs the layer
// again with a graph.
#pragma once

#include "comm/communicator.hpp"
#include "data/batch_source.hpp"
#include "decoder/decoder.hpp"
#include "shard/arena.hpp"
#include "shard/finite_check.hpp"
#include "train/gradient_reducer.hpp"
#include "train/micro_batch.hpp"
#include "train/optimizer.hpp"
#include "train/stage_binder.hpp"
#include "train/trainer_options.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Why a step has made no update.
enum class LeftOut : std::uint8_t { kNo, kNonFinite, kSpike, kNoTarget };

/// Results of a step; the same on every rank, but for the phases.
struct StepMetrics {
  double loss = 0;          ///< mean cross-entropy over all targets of the step, in nats
  double grad_norm = 0;     ///< global L2 norm before clipping
  double aux_loss = 0;      ///< load-balancing loss, without its coefficient; 0 where the model has none
  double z_loss = 0;        ///< z-loss of the routers' logits, without its coefficient; 0 where that is 0
  std::int64_t tokens = 0;  ///< inputs that are no padding
  std::int64_t communicated_bytes =
      0;  ///< sent by all ranks together, up to the last reduction of this count
  std::vector<std::int64_t> expert_tokens;  ///< [MoE layers x experts]: tokens times k that chose each expert
  PhaseSeconds phase_seconds{};
  LeftOut left_out = LeftOut::kNo;
  std::string finding{};  ///< finding, "loss nan, first in the output of layer 2", or ""
};

class Trainer {
 public:
  /// All references but `options` must outlive the trainer; `weights` are trained in place. Allocates gather
  /// slots, the gradient buffer, gradients and the optimizer's state, and nothing that lasts after that.
  /// `offload`, if it is not null, has what lies on a disk, and only with released gradients.
  Trainer(Communicator& comm, const ModelConfig& model, const ParameterManifest& manifest,
          ShardArena& weights, const TrainerOptions& options, OffloadedUnits* offload = nullptr);

  /// Collective over the communicator. One step on this rank's share of the batch, which may be empty;
  /// `number` is 1 for the first. Exact clipping by the global norm takes a second backward pass where
  /// gradients are released.
  ///
  /// Leaves the update out, on every rank alike, if the loss is above `largest_loss`, or if loss or gradients
  /// are not finite and the options say kSkip; with kStop, or if weights are not finite, that is
  /// Error(kNumerics) with the step's number and the first such tensor. It is known before anything is
  /// updated, except where gradients are released without a global norm: there each is looked at before its
  /// own update, no rank updates what comes after the first one that is not finite, and what came before
  /// stays updated.
  ///
  /// A batch without a target has no loss, whose mean would be 0/0: nothing is computed, loss and norm are
  /// NaN, and weights and the optimizer's state stay as they are, without weight decay.
  StepMetrics step(std::int64_t number, const Batch& batch, double learning_rate,
                   double largest_loss = std::numeric_limits<double>::infinity());

  /// Collective over the communicator. The first part of step(): forward and backward; afterwards gradients()
  /// holds this rank's shards of the gradient of loss and the router's own losses, each times its
  /// coefficient, unless the update is to be left out. Only where they are kept.
  StepMetrics compute_gradients(std::int64_t number, const Batch& batch,
                                double largest_loss = std::numeric_limits<double>::infinity());
  /// The second part: clips and updates this rank's shards. Collective over the communicator with
  /// ClipRule::kUnit or factored state.
  void update(double grad_norm, double learning_rate);

  /// Shows `observer` all gradients of a step, in float32, before they are used: once each, part by part of
  /// the units.
  void observe_gradients(GradientConsumer observer) { observer_ = std::move(observer); }

  /// Collective over the communicator. Error(kNumerics), on every rank alike, if the last update has made
  /// weights that are not finite; after earlier ones the next step says so.
  void require_finite_weights();

  /// Collective over the communicator. Logits [L, vocabulary] float32 of the first sequence of rank 0's
  /// batch, there; undefined on the other ranks.
  [[nodiscard]] at::Tensor first_logits(const Batch& batch);

  /// Error(kInternal) where gradients are released.
  [[nodiscard]] const ShardArena& gradients() const { return store_.shards(); }
  /// Binder for passes between steps.
  [[nodiscard]] StageBinder& binder() { return binder_; }
  [[nodiscard]] const Optimizer& optimizer() const { return optimizer_; }
  [[nodiscard]] Optimizer& optimizer() { return optimizer_; }

 private:
  /// Record of one layer's forward pass that a micro-batch keeps.
  struct LayerPass {
    at::Tensor input;  ///< [b, L, hidden]
    /// Hidden states between the layer's halves, unless all of it or nothing is recomputed.
    at::Tensor mixed;
    at::Tensor output;  ///< output with its graph, when nothing is recomputed; else undefined
    SavedForRecompute record;
  };
  struct Pass : MicroBatch {
    std::int64_t first_token = 0;  ///< index of the first token in the step's tokens over all ranks
    std::vector<LayerPass> layers;
    at::Tensor last_hidden;  ///< [b, L, hidden] before the head, for a second backward pass
  };

  /// Use of the gradients of a backward pass, where they are released.
  enum class Use : std::uint8_t { kNorm, kUpdate };

  [[nodiscard]] StepMetrics step_without_target(const Batch& batch) const;
  [[nodiscard]] bool releases() const { return store_.mode() == GradientMode::kRelease; }
  [[nodiscard]] bool clips_globally() const;
  [[nodiscard]] double clip_factor(double grad_norm) const;
  StepMetrics kept_step(std::int64_t number, const Batch& batch, double learning_rate, double largest_loss);
  StepMetrics released_step(std::int64_t number, const Batch& batch, double learning_rate,
                            double largest_loss);
  void update_released(const GradientPart& sums, std::span<const double> squares);
  [[nodiscard]] bool find_norm(std::vector<Pass>& passes, const Batch& batch, StepMetrics& metrics);
  void update_along_backward(std::vector<Pass>& passes, const Batch& batch, StepMetrics& metrics);
  [[nodiscard]] std::vector<Pass> begin(std::int64_t number, const Batch& batch, double largest_loss,
                                        StepMetrics& metrics);
  void consume(const GradientPart& sums);
  [[nodiscard]] std::vector<Pass> split(const Batch& batch) const;
  void forward(std::vector<Pass>& passes);
  void embed(std::vector<Pass>& passes);
  /// Gradient that the load-balancing loss adds to each token's probabilities in a layer [experts]; undefined
  /// without.
  [[nodiscard]] at::Tensor probability_grad(int layer) const;
  void reduce_routing(StepMetrics& metrics);
  /// Forward and backward of the head, and the loss. False if the step ends here: its update is left out.
  [[nodiscard]] bool head(std::vector<Pass>& passes, const Batch& batch, StepMetrics& metrics);
  void refuse_loss(const std::vector<Pass>& passes, StepMetrics& metrics);
  [[nodiscard]] std::string first_broken_activation(const std::vector<Pass>& passes);
  void refuse_gradients(StepMetrics& metrics);
  /// `last`: what was kept for this pass is let go.
  void backward(std::vector<Pass>& passes, bool last);
  void forward_layer(int index, Pass& pass, bool keep_graph);
  void backward_layer(int index, Pass& pass, bool last);
  [[nodiscard]] at::Tensor recompute_backward(int index, const Pass& pass, LayerPass& layer);
  void embed_backward(const std::vector<Pass>& passes);
  void finish_metrics(StepMetrics& metrics);
  /// Moves the correction biases after an update.
  void move_biases(const StepMetrics& metrics);

  Communicator& comm_;
  const ParameterManifest& manifest_;
  bool has_weights_;  ///< whether the weights are in memory all the time
  TrainerOptions options_;
  StageBinder binder_;
  const StagePlan& stages_;
  PhaseTimer& timer_;
  ops::Dropout dropout_;
  Decoder decoder_;
  GradientStore store_;
  GradientReducer reducer_;
  Optimizer optimizer_;
  GradientConsumer observer_;
  Use use_ = Use::kUpdate;
  std::int64_t number_ = 0;  ///< number of the step
  float z_scale_ = 0;        ///< factor of the step's z-loss in the gradients of logits
  double largest_loss_ = 0;  ///< largest loss whose update is made
  NonFinite non_finite_;  ///< this rank's first gradient of the step that is, unless all are kept in float32
  /// Whether a rank has found a number that is not finite, so that this step makes no more updates.
  bool gives_up_ = false;
  double squares_ = 0;  ///< sum of squares of this rank's gradients so far, unless all are kept in float32
  double scale_ = 1;    ///< factor of released gradients
  std::int64_t updated_parts_ = 0;    ///< parts updated in this step, with released gradients
  std::vector<RoutingSums> routing_;  ///< one per layer; undefined tensors in dense ones
  /// Rows of the embedding in this step, if they travel instead of the table.
  std::optional<RowExchange> embedding_rows_;
  /// Micro-batches of the rank that has most of them in this step.
  std::size_t rounds_ = 0;
  at::Tensor probability_grads_;  ///< [MoE layers, experts] float32; undefined without load-balancing loss
  int lowest_layer_;              ///< lowest layer that training changes; -1 for the embedding
  std::int64_t tokens_per_step_;
  std::int64_t sent_bytes_;  ///< bytes that this rank had sent at the end of the last step
};

}  // namespace sluice
