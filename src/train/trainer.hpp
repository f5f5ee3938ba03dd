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
#include "train/adamw.hpp"
#include "train/gradient_reducer.hpp"
#include "train/micro_batch.hpp"
#include "train/stage_binder.hpp"
#include "train/trainer_options.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

/// Results of a step; the same on every rank, but for the phases.
struct StepMetrics {
  double loss = 0;       ///< mean cross-entropy over all targets of the step, in nats
  double grad_norm = 0;  ///< global L2 norm before clipping
  double aux_loss = 0;   ///< load-balancing loss, without its coefficient
  std::int64_t tokens = 0;
  std::int64_t communicated_bytes =
      0;  ///< sent by all ranks together, up to the last reduction of this count
  std::vector<std::int64_t> expert_tokens;  ///< [MoE layers x experts]: tokens times k that chose each expert
  PhaseSeconds phase_seconds{};
};

class Trainer {
 public:
  /// All references but `options` must outlive the trainer; `weights` are trained in place. Allocates gather slots, the
  /// gradient buffer, the gradient shards and the optimizer's state, and nothing that lasts after that.
  Trainer(Communicator& comm, const ModelConfig& model, const ParameterManifest& manifest,
          ShardArena& weights, const TrainerOptions& options);

  /// Collective over the communicator. compute_gradients() and update().
  StepMetrics step(std::int64_t number, const Batch& batch, double learning_rate);

  /// Collective over the communicator. Forward and backward of this rank's share of the batch (it may be
  /// empty) of step `number` (from 1); afterwards gradients() holds this rank's shards of the gradient of
  /// loss + coefficient * aux_loss. Error(kNumerics), on every rank alike and with the step's number, when
  /// loss or norm is not finite.
  StepMetrics compute_gradients(std::int64_t number, const Batch& batch);
  /// Clips by the global norm and updates this rank's shards. No communication.
  void update(double grad_norm, double learning_rate);

  /// Collective over the communicator. Error(kNumerics), on every rank alike, if the last update has made
  /// weights that are not finite; after earlier ones the next step says so.
  void require_finite_weights();

  /// Collective over the communicator. Logits [L, vocabulary] float32 of the first sequence of rank 0's
  /// batch, there; undefined on the other ranks.
  [[nodiscard]] at::Tensor first_logits(const Batch& batch);

  [[nodiscard]] const ShardArena& gradients() const { return gradients_; }
  [[nodiscard]] const AdamW& optimizer() const { return optimizer_; }

 private:
  /// What one micro-batch keeps of one layer's forward pass.
  struct LayerPass {
    at::Tensor input;   ///< [b, L, hidden]
    at::Tensor mixed;   ///< between its halves, unless all of the layer or nothing is recomputed
    at::Tensor output;  ///< with its graph, when nothing is recomputed; else undefined
    SavedForRecompute record;
  };
  struct Pass : MicroBatch {
    std::vector<LayerPass> layers;
  };

  [[nodiscard]] std::vector<Pass> split(const Batch& batch) const;
  void forward(std::vector<Pass>& passes);
  void embed(std::vector<Pass>& passes);
  void reduce_routing(StepMetrics& metrics);
  [[nodiscard]] double head(std::vector<Pass>& passes, double loss_scale);
  void backward(std::vector<Pass>& passes);
  void forward_layer(int index, Pass& pass, bool keep_graph);
  void backward_layer(int index, Pass& pass);
  [[nodiscard]] at::Tensor recompute_backward(int index, const Pass& pass, LayerPass& layer);
  void embed_backward(const std::vector<Pass>& passes);
  void finish_metrics(double local_loss_sum, std::int64_t targets, StepMetrics& metrics);
  static void require_finite(std::int64_t number, const StepMetrics& metrics);

  Communicator& comm_;
  TrainerOptions options_;
  StageBinder binder_;
  const StagePlan& stages_;
  PhaseTimer& timer_;
  Decoder decoder_;
  ShardArena gradients_;
  GradientReducer reducer_;
  AdamW optimizer_;
  std::vector<RoutingSums> routing_;           ///< one per layer; undefined tensors in dense ones
  std::optional<RowExchange> embedding_rows_;  ///< of this step, if they travel instead of the table
  std::size_t rounds_ = 0;                     ///< of the rank with the most micro-batches of this step
  at::Tensor probability_grad_;                ///< [experts] float32; undefined without load-balancing loss
  std::int64_t tokens_per_step_;
  std::int64_t sent_bytes_;  ///< by this rank, at the end of the last step
};

}  // namespace sluice
