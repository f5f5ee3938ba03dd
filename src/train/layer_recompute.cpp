#include "train/layer_recompute.hpp"

#include "ops/runtime/graph_gradient.hpp"

#include <torch/types.h>

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

at::Tensor RouterLosses::probability_grad(const ModelConfig& model, int layer) const {
  if (!probability_grads.defined() || !model.has_experts(layer)) return {};
  std::int64_t among = 0;
  while (model.moe_layer(among) < layer) ++among;
  return probability_grads.select(0, among);
}

RecomputedLayers::RecomputedLayers(const Decoder& decoder, Recompute recompute, int lowest_layer,
                                   ExpertExchange& exchange)
    : decoder_(decoder), recompute_(recompute), lowest_layer_(lowest_layer), exchange_(exchange) {}

at::Tensor RecomputedLayers::forward(int layer, TrainedMicroBatch& micro_batch, RouterLosses& losses,
                                     const at::Tensor& x) const {
  const auto index = static_cast<std::size_t>(layer);
  const bool keeps_graph = recompute_ == Recompute::kNone && layer >= lowest_layer_;
  const at::AutoGradMode grad_mode(keeps_graph);
  LayerActivations& kept = micro_batch.layers[index];
  kept.record.routing.counted = micro_batch.counted;
  kept.record.routing.z_scale = losses.z_scale;
  kept.input = x.detach().requires_grad_(keeps_graph);
  const Halfway halfway =
      decoder_.token_mixer(layer, kept.input, micro_batch.documents, kept.record.attention);
  const at::Tensor output =
      decoder_.mlp_sublayer(layer, halfway, kept.record.routing, losses.sums[index],
                            losses.probability_grad(decoder_.config(), layer), exchange_);
  if (keeps_graph) kept.output = output;
  if (recompute_ == Recompute::kLayer)
    kept.mixed = decoder_.config().has_parallel_halves(layer) ? kept.input : halfway.hidden;
  if (recompute_ == Recompute::kAll) kept.record.attention = {};
  if (layer < lowest_layer_) kept = {};  // the backward pass does not reach this layer
  return output.detach();
}

void RecomputedLayers::backward(int layer, TrainedMicroBatch& micro_batch, RouterLosses& losses,
                                Activations activations) const {
  const at::AutoGradMode grad_mode(true);
  const bool keeps = activations == Activations::kKeep;
  LayerActivations& stored = micro_batch.layers[static_cast<std::size_t>(layer)];
  LayerActivations kept = keeps ? stored : std::exchange(stored, {});
  micro_batch.d_x = kept.output.defined()
                        ? ops::graph_gradient(kept.output, kept.input, micro_batch.d_x,
                                              keeps ? ops::GraphAfter::kKept : ops::GraphAfter::kFreed)
                        : recompute_backward(layer, micro_batch, kept, losses);
}

at::Tensor RecomputedLayers::recompute_backward(int layer, const TrainedMicroBatch& micro_batch,
                                                LayerActivations& kept, RouterLosses& losses) const {
  const auto index = static_cast<std::size_t>(layer);
  const at::Tensor input = kept.input.requires_grad_(true);
  const auto mix = [&](ops::Purpose purpose) {
    return decoder_.token_mixer(layer, input, micro_batch.documents, kept.record.attention, purpose);
  };
  std::optional<Halfway> first_half;
  if (!kept.mixed.defined()) first_half = mix(ops::Purpose::kOutput);
  const Halfway halfway = (first_half ? *first_half : decoder_.halfway(layer, input, kept.mixed)).leaves();
  const at::Tensor output =
      decoder_.mlp_sublayer(layer, halfway, kept.record.routing, losses.sums[index],
                            losses.probability_grad(decoder_.config(), layer), exchange_, micro_batch.d_x);
  // Overlaps with the exchange of tokens and their gradients; without an exchange one half's graph at a time
  // is enough.
  const bool is_moe = decoder_.config().has_experts(layer);
  if (!first_half && is_moe && exchange_.travels()) first_half = mix(ops::Purpose::kGraph);
  const std::vector<at::Tensor> d_halfway =
      ops::graph_gradients({output}, halfway.tensors(), {micro_batch.d_x});
  if (!first_half) first_half = mix(ops::Purpose::kGraph);
  return ops::graph_gradients(first_half->tensors(), {input}, d_halfway).front();
}

}  // namespace sluice
