#include "plan/activation_plan.hpp"

#include "base/bytes.hpp"
#include "base/compute_sizes.hpp"
#include "base/dtype.hpp"
#include "base/round.hpp"
#include "plan/exchange_limits.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// Of one token in one layer, in elements of the training type. Counted from the blocks: what each operation
/// saves, and what its gradients pass through.
struct LayerElements {
  std::int64_t mixer_kept = 0, mlp_kept = 0;      ///< by the graph, until the gradients have passed
  std::int64_t mixer_passed = 0, mlp_passed = 0;  ///< besides, by the block that is computed
  std::int64_t mixer_recorded = 0;  ///< for a later pass, or if none comes until the layer is done
  bool is_delta_net = false, is_moe = false;
};

LayerElements attention_elements(const ModelConfig& model) {
  const std::int64_t queries = model.attention_heads * model.head_dim;
  const std::int64_t keys = model.key_value_heads * model.head_dim;
  const std::int64_t gate = model.attention_output_gate ? 4 * queries : 0;
  const std::int64_t sums = 2 * model.attention_heads;
  return {.mixer_kept = model.hidden_size + 2 * queries + 3 * keys + gate + sums,
          .mixer_passed = 2 * queries + 2 * keys + gate,
          .mixer_recorded = queries + sums};
}

/// With the state before each chunk, in float32, shared out to the tokens.
LayerElements delta_net_elements(const ModelConfig& model, std::int64_t length, std::int64_t size) {
  const LinearAttentionConfig& linear = model.linear_attention;
  const std::int64_t values = linear.value_heads * linear.value_head_dim;
  const std::int64_t mixed = 2 * linear.key_heads * linear.key_head_dim + values;
  const std::int64_t states = divide_up(length, kDeltaChunkPositions) * values * linear.key_head_dim *
                              size_of(DType::kFloat32) / size;
  return {.mixer_kept =
              model.hidden_size + 2 * mixed + 4 * values + 8 * linear.value_heads + divide_up(states, length),
          .mixer_passed = 2 * mixed + 2 * values,
          .is_delta_net = true};
}

/// Without what experts pass through: see expert_bytes().
void add_mlp_elements(const ModelConfig& model, MlpKind kind, LayerElements& layer) {
  const std::int64_t hidden = model.hidden_size;
  if (kind == MlpKind::kDense) {
    layer.mlp_kept = 2 * hidden + 3 * model.intermediate_size;
    layer.mlp_passed = 2 * hidden + 3 * model.intermediate_size;
    return;
  }
  layer.is_moe = true;
  const std::int64_t shared = model.shared_expert_intermediate_size;
  layer.mlp_kept = 2 * hidden + 4 * model.experts + 8 * model.experts_per_token +
                   (shared > 0 ? 3 * shared + 2 * hidden : 0);
  layer.mlp_passed = 2 * hidden + 2 * model.experts + (shared > 0 ? 3 * shared + 2 * hidden : 0);
}

std::vector<LayerElements> layer_elements(const ModelConfig& model, std::int64_t length, std::int64_t size) {
  std::vector<LayerElements> layers;
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    const bool is_full = model.attention[layer] == AttentionKind::kFull;
    layers.push_back(is_full ? attention_elements(model) : delta_net_elements(model, length, size));
    add_mlp_elements(model, model.layers[layer], layers.back());
  }
  return layers;
}

/// What attention takes besides. For the heads of keys that threads work on at a time: their keys and values
/// laid out for products, three times; the gradients of both in float32. For each thread: the queries that it
/// takes over the keys, and a panel of scores and gradients. Where there are no products on tiles, for all
/// threads: a tile of scores and its gradient.
std::int64_t attention_bytes(const ModelConfig& model, std::int64_t sequences, std::int64_t length,
                             std::int64_t threads) {
  constexpr std::int64_t kManyThreads = 16;  // where their number is left to the machine
  constexpr std::int64_t kScores = 512 * 512, kQueriesAndPanel = 1216 * kKiB;
  const std::int64_t workers = threads == 0 ? kManyThreads : threads;
  const std::int64_t heads = std::min(sequences * model.key_value_heads, workers);
  return heads * length * model.head_dim * (3 * size_of(DType::kBFloat16) + 2 * size_of(DType::kFloat32)) +
         std::max(2 * kScores * size_of(DType::kFloat32), workers * kQueriesAndPanel);
}

/// One chunk's graph of a delta net, in float32: the others' are not there meanwhile.
std::int64_t delta_net_bytes(const ModelConfig& model, std::int64_t sequences) {
  constexpr std::int64_t kChunk = kDeltaChunkPositions;
  const LinearAttentionConfig& linear = model.linear_attention;
  const std::int64_t graph = 8 * kChunk * kChunk +
                             12 * kChunk * (linear.key_head_dim + linear.value_head_dim) +
                             4 * linear.key_head_dim * linear.value_head_dim;
  return sequences * linear.value_heads * graph * size_of(DType::kFloat32);
}

/// What is kept for the tokens of the group from the first pass of the experts on: the tokens; in backward
/// their outputs' gradients, or what comes back for each own token; sums in float32; choices and their
/// weights. In a large group also the rows that are sent, twice in backward, and the sum of what comes back.
/// None of it depends on where the router sends the tokens: as many as can be come here.
std::int64_t exchange_bytes(const ModelConfig& model, std::int64_t size, const TokenLoad& load,
                            std::int64_t group_tokens, std::int64_t own_tokens) {
  if (model.moe_layer_count() == 0) return 0;
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t sums = group_tokens * hidden * size_of(DType::kFloat32);
  if (load.group_ranks == 1) return sums;
  const bool routes = load.group_ranks > kGatheringRanks;
  const std::int64_t receivers =
      routes ? std::min<std::int64_t>(load.group_ranks, model.experts_per_token) : load.group_ranks;
  const std::int64_t returned = own_tokens * receivers;
  const std::int64_t packed =
      routes ? 2 * returned * hidden * size + own_tokens * hidden * size_of(DType::kFloat32) : 0;
  return sums + packed + (group_tokens + std::max(group_tokens, returned)) * hidden * size +
         group_tokens * model.experts_per_token * 8;
}

/// What one pass of the experts takes: the slots in the order of experts, and one block of rows, in
/// the place of which its gradients come.
std::int64_t expert_bytes(const ModelConfig& model, std::int64_t size, std::int64_t group_tokens) {
  if (model.moe_layer_count() == 0) return 0;
  const std::int64_t slots = group_tokens * model.experts_per_token;
  return slots * 8 + std::min(kExpertBlockRows, slots) *
                         (2 * model.hidden_size + 3 * model.expert_intermediate_size) * size;
}

/// Logits that are there at once, and the float32 gradient of a group of tokens.
std::int64_t head_bytes(const ModelConfig& model) {
  return kKeptLogitBytes + kLossTokens * model.hidden_size * size_of(DType::kFloat32);
}

/// A micro-batch on its way through one layer.
struct LayerPass {
  std::int64_t tokens = 0, element_bytes = 0;
  std::int64_t hidden = 0;
  /// What does not grow with the tokens' elements.
  std::int64_t attention_bytes = 0, delta_net_bytes = 0, feeding_bytes = 0;

  /// What the mixer or the MLP takes, whichever is more, besides the layer's input and what comes down to it;
  /// while the MLP gets its gradients, perhaps with the mixer's graph.
  [[nodiscard]] std::int64_t bytes(const LayerElements& layer, bool with_mixers_graph) const {
    const std::int64_t mixer = 2 * hidden + layer.mixer_recorded + layer.mixer_kept + layer.mixer_passed;
    const std::int64_t mlp = hidden + layer.mixer_recorded + (with_mixers_graph ? layer.mixer_kept : 0) +
                             layer.mlp_kept + layer.mlp_passed;
    const std::int64_t mixing_bytes = layer.is_delta_net ? delta_net_bytes : attention_bytes;
    return std::max(tokens * mixer * element_bytes + mixing_bytes,
                    tokens * mlp * element_bytes + feeding_bytes);
  }
};

}  // namespace

ActivationBytes plan_activations(const ModelConfig& model, const JobConfig& job, const TokenLoad& load) {
  const std::int64_t length = job.data.sequence_length;
  const std::int64_t size = size_of(job.model.dtype);
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t sequences = std::min(load.own_sequences, job.train.micro_batch_sequences);
  const std::int64_t tokens = load.own_sequences * length, micro_tokens = sequences * length;
  const std::int64_t group_tokens = load.group_sequences * length;
  const bool trains = job.job.kind == JobKind::kTrain;
  const bool keeps_attention = trains && job.train.recompute != Recompute::kAll;
  const bool keeps_graphs = trains && job.train.recompute == Recompute::kNone;
  const bool keeps_halves = trains && job.train.recompute == Recompute::kLayer;
  const LayerPass pass{.tokens = micro_tokens,
                       .element_bytes = size,
                       .hidden = hidden,
                       .attention_bytes = attention_bytes(model, sequences, length, job.parallel.threads),
                       .delta_net_bytes = delta_net_bytes(model, sequences),
                       .feeding_bytes = expert_bytes(model, size, group_tokens)};

  const std::int64_t head = micro_tokens * 3 * hidden * size + head_bytes(model);
  // Rows of the embedding that arrive, and those of any rank that lie here and are sent.
  const std::int64_t all_tokens = job.train.batch_sequences * length;
  const std::int64_t embed = (tokens + std::min(all_tokens, model.vocab_size)) * hidden * size;
  std::int64_t forward = trains ? embed : std::max(embed, head), backward = head, kept = 0;
  for (LayerElements& layer : layer_elements(model, length, size)) {
    // A layer's output is the next one's input, which is counted with the inputs.
    if (keeps_attention) kept += tokens * std::exchange(layer.mixer_recorded, 0) * size;
    if (keeps_halves) kept += tokens * hidden * size;
    if (keeps_graphs)
      kept += tokens * (std::exchange(layer.mixer_kept, 0) + std::exchange(layer.mlp_kept, 0)) * size;
    const bool both_halves = !keeps_halves || (layer.is_moe && load.group_ranks > 1);
    forward = std::max(forward, pass.bytes(layer, /*with_mixers_graph=*/false));
    backward = std::max(backward, pass.bytes(layer, both_halves));
  }
  const std::int64_t choices = model.moe_layer_count() * model.experts_per_token * 8;
  const std::int64_t inputs = trains ? tokens * (model.layer_count() * hidden * size + choices) : 0;
  const std::int64_t lasting =
      tokens * hidden * size + inputs + kept + exchange_bytes(model, size, load, group_tokens, micro_tokens);
  return {.forward = lasting + forward, .backward = trains ? lasting + backward : 0};
}

}  // namespace sluice
