// A layer's forward pass in training and its backward pass, which recomputes what the forward pass has not
// kept.
#pragma once

#include "config/choices.hpp"
#include "decoder/decoder.hpp"
#include "train/expert_exchange.hpp"
#include "train/micro_batch.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// Activations of one micro-batch that the forward pass of one layer keeps.
struct LayerActivations {
  at::Tensor input;  ///< input of the layer [b, L, hidden]
  /// hidden states between the layer's halves [b, L, hidden], with Recompute::kLayer; else undefined. Where the
  /// halves are parallel, no pass for the graph reads them: the layer's input is in their place.
  at::Tensor mixed;
  /// Output of the layer [b, L, hidden] with its graph, with Recompute::kNone; else undefined.
  at::Tensor output;
  SavedForRecompute record;
};

/// A micro-batch on its way through a train step.
struct TrainedMicroBatch : MicroBatch {
  /// Number of the micro-batch's first token among the tokens of the step over all ranks.
  std::int64_t first_token = 0;
  std::vector<LayerActivations> layers{};
  at::Tensor hidden{};  ///< hidden states [b, L, hidden] that go into the head
  /// [b, L, hidden] gradient of the hidden states at the layer that the backward pass has reached
  at::Tensor d_x{};
};

/// The router's own losses in a step.
struct RouterLosses {
  std::vector<RoutingSums> sums;  ///< routing sums of each layer; undefined tensors in dense ones
  /// [MoE layers, experts] float32: gradient of the load-balancing loss for each token's probabilities;
  /// undefined without a load-balancing loss.
  at::Tensor probability_grads;
  float z_scale = 0;  ///< ops::RouterLossGrad::z_scale of the step

  /// A layer's row [experts] of probability_grads; undefined without a load-balancing loss and for dense
  /// layers.
  [[nodiscard]] at::Tensor probability_grad(const ModelConfig& model, int layer) const;
};

/// Whether a later backward pass needs the same activations again.
enum class Activations : bool { kLetGo, kKeep };

class RecomputedLayers {
 public:
  /// All references must outlive this object. Layers below `lowest_layer` have no backward pass.
  RecomputedLayers(const Decoder& decoder, Recompute recompute, int lowest_layer, ExpertExchange& exchange);

  /// Collective as moe_block(), where the layer has experts. Returns the layer's output for `x`, both [b, L,
  /// hidden], without a graph.
  [[nodiscard]] at::Tensor forward(int layer, TrainedMicroBatch& micro_batch, RouterLosses& losses,
                                   const at::Tensor& x) const;

  /// Collective as moe_block(), where the layer has experts. Replaces `micro_batch.d_x`, the gradient of the
  /// layer's output, by the gradient of its input, and adds to the gradients of the layer's parameters.
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
