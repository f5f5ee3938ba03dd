// A layer's forward pass in training and its backward pass, which repeats what the forward pass has not kept.
#pragma once

#include "config/choices.hpp"
#include "decoder/decoder.hpp"
#include "train/expert_exchange.hpp"
#include "train/micro_batch.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// What the forward pass of one layer keeps of one micro-batch.
struct LayerActivations {
  at::Tensor input;   ///< [b, L, hidden]
  at::Tensor mixed;   ///< [b, L, hidden] between the layer's halves, with Recompute::kLayer; else undefined
  at::Tensor output;  ///< [b, L, hidden] with its graph, with Recompute::kNone; else undefined
  SavedForRecompute record;
};

/// A micro-batch on its way through a train step.
struct TrainedMicroBatch : MicroBatch {
  std::int64_t first_token = 0;  ///< number of its first token among those of the step over all ranks
  std::vector<LayerActivations> layers{};
  at::Tensor hidden{};  ///< [b, L, hidden] hidden states that go into the head
  at::Tensor d_x{};  ///< [b, L, hidden] gradient of the hidden states that the backward pass has come down to
};

/// The router's own losses in a step.
struct RouterLosses {
  std::vector<RoutingSums> sums;  ///< sums of each layer; undefined tensors in dense ones
  /// [MoE layers, experts] float32: gradient of the load-balancing loss for each token's probabilities;
  /// undefined without that loss.
  at::Tensor probability_grads;
  float z_scale = 0;  ///< ops::RouterLossGrad::z_scale

  /// A layer's part of probability_grads [experts]; undefined without the loss and for dense layers.
  [[nodiscard]] at::Tensor probability_grad(const ModelConfig& model, int layer) const;
};

/// Whether a later backward pass goes over the same activations again.
enum class Activations : bool { kLetGo, kKeep };

class RecomputedLayers {
 public:
  /// All references must outlive this. Layers below `lowest_layer` have no backward pass.
  RecomputedLayers(const Decoder& decoder, Recompute recompute, int lowest_layer, ExpertExchange& exchange);

  /// Collective as moe_block(), where the layer has one. Returns the layer's output for `x`, both [b, L,
  /// hidden], without a graph.
  [[nodiscard]] at::Tensor forward(int layer, TrainedMicroBatch& micro_batch, RouterLosses& losses,
                                   const at::Tensor& x) const;

  /// Collective as moe_block(), where the layer has one. Takes `micro_batch.d_x` from the layer's output to
  /// its input, and adds to the gradients of the layer's parameters.
  void backward(int layer, TrainedMicroBatch& micro_batch, RouterLosses& losses,
                Activations activations) const;

 private:
  [[nodiscard]] at::Tensor recompute_backward(int layer, const TrainedMicroBatch& micro_batch,
                                              LayerActivations& kept, RouterLosses& losses) const;

  const Decoder& decoder_;
  Recompute recompute_;
  int lowest_layer_;
  ExpertExchange& exchange_;
};

}  // namespace sluice
