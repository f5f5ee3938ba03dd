#include "plan/activation_plan.hpp"

#include "base/compute_sizes.hpp"
#include "base/dtype.hpp"
#include "base/round.hpp"
#include "encoding/token_rows.hpp"
#include "model/blocks/embedding_and_head.hpp"
#include "model/blocks/layer_blocks.hpp"
#include "plan/exchange_limits.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// Activations of a layer's two halves.
struct LayerHalves : LayerActivationSizes {
  bool is_moe = false;
  /// Whether it has both, so that hidden states between them are neither its input nor its output.
  bool has_both = false;
  bool is_parallel = false;  ///< whether both get the same input, so that these are not kept
};

std::vector<LayerHalves> layer_halves(const ModelConfig& model, const PassSize& pass) {
  std::vector<LayerHalves> layers;
  for (int layer = 0; layer < model.layer_count(); ++layer)
    layers.push_back({layer_activations(model, layer, pass), model.has_experts(layer),
                      model.has_mixer(layer) && model.has_mlp(layer), model.has_parallel_halves(layer)});
  // A norm behind a branch keeps the branch, and its gradient passes through.
  for (LayerHalves& layer : layers)
    for (BlockActivations* half : {&layer.mixer, &layer.mlp}) {
      half->kept += model.branch_norms ? model.hidden_size : 0;
      half->passed += model.branch_norms ? model.hidden_size : 0;
    }
  // The gradient of what both of two parallel halves get waits for the mixer's backward.
  for (LayerHalves& layer : layers) layer.mixer.passed += layer.is_parallel ? model.hidden_size : 0;
  // A dense MLP and experts side by side keep what each made for the norms behind both, but their input once; the
  // gradients of both pass through.
  for (int layer = 0; layer < model.layer_count(); ++layer)
    if (model.has_both_mlps(layer)) {
      BlockActivations& mlp = layers[static_cast<std::size_t>(layer)].mlp;
      mlp.kept += model.hidden_size;
      mlp.passed += 2 * model.hidden_size;
    }
  // In dense layers the work of experts is counted as well: an upper estimate.
  std::int64_t most = 0;
  for (const LayerHalves& layer : layers) most = std::max(most, layer.mlp.working_bytes);
  for (LayerHalves& layer : layers) layer.mlp.working_bytes = most;
  return layers;
}

/// Bytes of the exchange, kept for the group's tokens from the first pass of the experts on: the tokens; in
/// backward the gradients of their outputs, or the results for each own token; sums in float32; choices and
/// their weights. A large group also keeps the rows that are sent, twice in backward, and the sum of the
/// results. Tokens that are rounded to codes take those as well, twice in backward: of the group's tokens, and
/// while they are sent of own ones. The estimate does not depend on the router: as many tokens as possible arrive
/// here.
std::int64_t exchange_bytes(const ModelConfig& model, std::int64_t size, const TokenLoad& load,
                            std::int64_t group_tokens, std::int64_t own_tokens) {
  if (model.moe_layer_count() == 0) return 0;
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t sums = group_tokens * hidden * size_of(DType::kFloat32);
  const bool is_coded = load.tokens == TokenFormat::kInt8;
  const std::int64_t row_bytes = is_coded ? TokenRows(hidden).bytes() : hidden * size;
  if (load.group_ranks == 1)
    return sums + (is_coded ? 2 * own_tokens * hidden * size + own_tokens * row_bytes : 0);
  const bool routes = load.group_ranks > kGatheringRanks;
  const std::int64_t receivers =
      routes ? std::min<std::int64_t>(load.group_ranks, model.experts_per_token) : load.group_ranks;
  const std::int64_t returned = own_tokens * receivers;
  const std::int64_t packed =
      routes ? 2 * returned * row_bytes + own_tokens * hidden * size_of(DType::kFloat32) : 0;
  const std::int64_t codes = is_coded ? 2 * (group_tokens + own_tokens) * row_bytes : 0;
  return sums + packed + codes + (group_tokens + std::max(group_tokens, returned)) * hidden * size +
         group_tokens * model.experts_per_token * 8;
}

/// What of a layer is recorded in a graph while it is computed.
enum class LayerGraph { kNone, kHalf, kWhole };

/// Bytes of `tokens` in one layer: what the mixer or the MLP takes, whichever is more, besides the layer's
/// input and the gradient of its output, or its output; while the MLP's backward runs, perhaps with the mixer's
/// graph. Without a graph no gradient passes through, and at most as much is held as a graph would keep.
std::int64_t layer_bytes(const LayerHalves& layer, std::int64_t hidden, std::int64_t tokens,
                         std::int64_t element_bytes, LayerGraph graph) {
  const BlockActivations& mixer = layer.mixer;
  const BlockActivations& mlp = layer.mlp;
  const bool has_gradients = graph != LayerGraph::kNone;
  const std::int64_t mixer_elements =
      2 * hidden + mixer.recorded + mixer.kept + (has_gradients ? mixer.passed : 0);
  const std::int64_t mlp_elements = hidden + mixer.recorded + (graph == LayerGraph::kWhole ? mixer.kept : 0) +
                                    mlp.kept + (has_gradients ? mlp.passed : 0);
  return std::max(tokens * mixer_elements * element_bytes + mixer.working_bytes,
                  tokens * mlp_elements * element_bytes + mlp.working_bytes);
}

/// Bytes of the head for the losses of `tokens` alone: what its norm gives, and tiles of logits, one of them
/// turned into exponentials.
std::int64_t losses_bytes(std::int64_t tokens, std::int64_t hidden, std::int64_t element_bytes) {
  return tokens * hidden * element_bytes + 2 * kLossTokens * kLossTileRows * size_of(DType::kFloat32);
}

/// Additional bytes of a head that several ranks have between them: the hidden states of a piece of their tokens, or
/// of all that pass at once where coefficients follow from all losses, and this rank's sums.
std::int64_t shared_head_bytes(const ModelConfig& model, const Workload& work, const TokenLoad& load,
                               std::int64_t micro_tokens) {
  if (load.vocabulary_ranks == 1) return 0;
  const std::int64_t own = divide_up(kLossTokens, load.vocabulary_ranks);
  const bool keeps_all = work.trains && work.pair_bytes > 0;
  const std::int64_t at_once = std::max(own, keeps_all ? micro_tokens : 0) * load.vocabulary_ranks;
  return at_once * model.hidden_size * size_of(work.dtype) +
         own * model.hidden_size * size_of(DType::kFloat32);
}

/// Bytes of the gradients of an embedding's rows, where ranks never gather it: rows of this rank's tokens, and of
/// those of all ranks that this one has.
std::int64_t row_gradient_bytes(const ModelConfig& model, const TokenLoad& load, std::int64_t length) {
  if (load.vocabulary_ranks == 1) return 0;
  const std::int64_t own = std::min(load.own_sequences * length, model.vocab_size);
  const std::int64_t received = std::min(load.vocabulary_sequences * length, model.vocab_size);
  return (own + received) * model.hidden_size * size_of(DType::kFloat32);
}

}  // namespace

TrainedParts trained_parts(const ParameterManifest& manifest, const Workload& work, int lowest_layer) {
  TrainedParts parts{.lowest_layer = lowest_layer};
  std::map<int, std::int64_t> of_layer;
  for (const TensorInfo& tensor : manifest.tensors()) {
    // The matrix A of an adapter.
    if (tensor.adapts.empty() || tensor.initial == InitialValues::kZeros) continue;
    const std::int64_t rank = tensor.shape[tensor.shape.size() - 2];
    // Elements and their gradients.
    parts.low_rank = std::max(parts.low_rank, of_layer[tensor.layer] += 2 * rank);
    // The inputs after dropout, their gradients, and the gradients of the adapter's product.
    if (work.drops_inputs) parts.dropped = std::max(parts.dropped, 3 * tensor.shape.back());
  }
  return parts;
}

ActivationBytes plan_activations(const ModelConfig& model, const Workload& work, const TokenLoad& load,
                                 const TrainedParts& trained) {
  const std::int64_t length = work.pass_length;
  const std::int64_t size = size_of(work.dtype);
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t sequences = std::min(load.own_sequences, work.micro_batch_sequences);
  const std::int64_t tokens = load.own_sequences * length, micro_tokens = sequences * length;
  const std::int64_t group_tokens = load.group_sequences * length;
  const bool keeps_attention = work.trains && work.keeps_attention;
  const bool keeps_graphs = work.trains && work.keeps_graphs;
  const bool keeps_halves = keeps_attention && !keeps_graphs;
  const PassSize pass{.sequences = sequences,
                      .length = length,
                      .element_bytes = size,
                      .group_tokens = group_tokens,
                      .threads = work.threads,
                      .on_device = work.on_device,
                      .keeps_logits = work.has_z_loss};

  const BlockActivations of_head = blocks::embedding_and_head::head_activations(model);
  const std::int64_t tiles = work.on_device ? blocks::embedding_and_head::device_tile_bytes() : 0;
  const std::int64_t head =
      micro_tokens * of_head.passed * size + of_head.working_bytes + tiles +
      blocks::embedding_and_head::distribution_bytes(work.distribution_tokens, work.on_device) +
      shared_head_bytes(model, work, load, micro_tokens);
  const std::int64_t embed =
      blocks::embedding_and_head::embedding_bytes(model, tokens, work.batch_tokens(), size);
  std::int64_t forward = work.trains ? 0 : head, backward = head, kept = 0;
  int index = 0;
  for (LayerHalves& layer : layer_halves(model, pass)) {
    layer.mixer.passed += trained.low_rank + trained.dropped;
    layer.mlp.passed += trained.low_rank + trained.dropped;
    const auto bytes = [&](LayerGraph graph) {
      return layer_bytes(layer, hidden, micro_tokens, size, graph);
    };
    if (index++ < trained.lowest_layer) {
      forward = std::max(forward, bytes(LayerGraph::kNone));
      continue;
    }
    // A layer's output is the next layer's input.
    if (work.trains) kept += tokens * (hidden * size + layer.mlp.choice_bytes);
    if (keeps_attention) kept += tokens * std::exchange(layer.mixer.recorded, 0) * size;
    if (work.trains && !keeps_graphs && layer.is_moe && model.branch_norms) kept += tokens * hidden * size;
    if (keeps_halves && layer.has_both && !layer.is_parallel) kept += tokens * hidden * size;
    if (keeps_graphs) {
      // Of parallel halves' hidden states the mixer's graph has all that the MLP's needs.
      const std::int64_t shared = layer.is_parallel ? 2 * hidden : 0;
      kept +=
          tokens * (std::exchange(layer.mixer.kept, 0) + std::exchange(layer.mlp.kept, 0) - shared) * size;
    }
    const bool both_halves = !keeps_halves || (layer.is_moe && load.group_ranks > 1);
    forward = std::max(forward, bytes(keeps_graphs ? LayerGraph::kHalf : LayerGraph::kNone));
    backward = std::max(backward, bytes(both_halves ? LayerGraph::kWhole : LayerGraph::kHalf));
  }
  // Hidden states of the reference, and of one micro-batch also what comes out of a layer; they last until its
  // losses are made.
  if (work.has_reference) {
    forward += (tokens + micro_tokens) * hidden * size;
    backward = std::max(backward, losses_bytes(micro_tokens, hidden, size) + tiles + tokens * hidden * size);
  }
  const std::int64_t lasting =
      tokens * hidden * size + exchange_bytes(model, size, load, group_tokens, micro_tokens);
  // Tokens are embedded before the first layer has kept anything.
  return {.forward = lasting + std::max(embed, kept + forward),
          .backward =
              work.trains ? lasting + std::max(kept + backward, row_gradient_bytes(model, load, length)) : 0};
}

}  // namespace sluice
