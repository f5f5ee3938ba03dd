#include "train/activation_plan.hpp"

#include "base/bytes.hpp"
#include "base/dtype.hpp"
#include "base/round.hpp"

#include <algorithm>

namespace sluice {
namespace {

// Elements that one token's graph of one layer keeps or passes through, in the training element type. Counted
// from the blocks: inputs and outputs of every operation.

std::int64_t attention_elements(const ModelConfig& model) {
  const std::int64_t queries = model.attention_heads * model.head_dim;
  const std::int64_t keys = model.key_value_heads * model.head_dim;
  const std::int64_t gate = model.attention_output_gate ? 4 * queries : 0;
  return 4 * model.hidden_size + 4 * queries + 5 * keys + gate;
}

std::int64_t delta_net_elements(const ModelConfig& model) {
  const LinearAttentionConfig& linear = model.linear_attention;
  const std::int64_t values = linear.value_heads * linear.value_head_dim;
  const std::int64_t mixed = 2 * linear.key_heads * linear.key_head_dim + values;
  return 4 * model.hidden_size + 4 * mixed + 6 * values + 8 * linear.value_heads;
}

/// Without what experts pass through: see expert_bytes().
std::int64_t mlp_elements(const ModelConfig& model, MlpKind kind) {
  if (kind == MlpKind::kDense) return 4 * model.intermediate_size + 2 * model.hidden_size;
  const std::int64_t shared = model.shared_expert_intermediate_size;
  return 4 * model.hidden_size + 4 * model.experts + 8 * model.experts_per_token +
         (shared > 0 ? 4 * shared + 3 * model.hidden_size : 0);
}

/// Of the layer that takes most.
std::int64_t live_elements_per_token(const ModelConfig& model) {
  std::int64_t most = 0;
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    const bool is_full = model.attention[layer] == AttentionKind::kFull;
    most = std::max(most, (is_full ? attention_elements(model) : delta_net_elements(model)) +
                              mlp_elements(model, model.layers[layer]));
  }
  return most;
}

/// What attention takes besides for the heads of keys that threads work on at a time: their keys and values
/// laid out for products, three times; the gradients of both in float32; a tile of scores and its gradient.
std::int64_t attention_bytes(const ModelConfig& model, std::int64_t sequences, std::int64_t length,
                             std::int64_t threads) {
  constexpr std::int64_t kManyThreads = 16;  // where their number is left to the machine
  constexpr std::int64_t kScores = 512 * 512;
  const std::int64_t heads =
      std::min(sequences * model.key_value_heads, threads == 0 ? kManyThreads : threads);
  return heads * length * model.head_dim * (3 * size_of(DType::kBFloat16) + 2 * size_of(DType::kFloat32)) +
         2 * kScores * size_of(DType::kFloat32);
}

/// The states before each chunk and one chunk's graph, in float32. The chunk's size is the operation's.
std::int64_t delta_net_bytes(const ModelConfig& model, std::int64_t sequences, std::int64_t length) {
  constexpr std::int64_t kChunk = 64;
  const LinearAttentionConfig& linear = model.linear_attention;
  const std::int64_t state = linear.key_head_dim * linear.value_head_dim;
  const std::int64_t graph =
      8 * kChunk * kChunk + 12 * kChunk * (linear.key_head_dim + linear.value_head_dim) + 4 * state;
  return sequences * linear.value_heads * (divide_up(length, kChunk) * state + graph) *
         size_of(DType::kFloat32);
}

/// What a pass of the experts takes: the tokens of the group, and in backward their gradients; sums in
/// float32, and rounded; the ranks' parts of each own token and their sum; one block of rows (see
/// ops::ExpertRows) and its gradients. None of it depends on where the router sends the tokens.
std::int64_t expert_bytes(const ModelConfig& model, std::int64_t size, std::int64_t group_ranks,
                          std::int64_t group_tokens, std::int64_t own_tokens, bool is_backward) {
  constexpr std::int64_t kBlockRows = 512;
  if (model.moe_layer_count() == 0) return 0;
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t copies = group_ranks == 1 ? 0 : is_backward ? 2 : 1;
  const std::int64_t routing = group_tokens * model.experts_per_token * 16;
  const std::int64_t group =
      group_tokens * hidden * ((copies + 1) * size + size_of(DType::kFloat32)) + routing;
  const std::int64_t parts = group_ranks == 1 ? 0 : group_ranks * size + size_of(DType::kFloat32);
  const std::int64_t rows = std::min(kBlockRows, group_tokens * model.experts_per_token);
  return group + own_tokens * hidden * (parts + size) +
         rows * (2 * hidden + 6 * model.expert_intermediate_size) * size;
}

constexpr std::int64_t kLogitTile = 16 * kMiB;

}  // namespace

ActivationBytes plan_activations(const ModelConfig& model, const JobConfig& job, const TokenLoad& load) {
  const std::int64_t length = job.data.sequence_length;
  const std::int64_t size = size_of(job.model.dtype);
  const std::int64_t tokens = load.own_sequences * length;
  const std::int64_t micro_sequences = std::min(load.own_sequences, job.train.micro_batch_sequences);
  const std::int64_t micro_tokens = micro_sequences * length;
  const std::int64_t live = live_elements_per_token(model) * size;
  const std::int64_t mixing = std::max(attention_bytes(model, micro_sequences, length, job.parallel.threads),
                                       delta_net_bytes(model, micro_sequences, length));
  const auto experts = [&](bool is_backward) {
    return expert_bytes(model, size, load.group_ranks, load.group_sequences * length, micro_tokens,
                        is_backward);
  };
  ActivationBytes bytes;
  bytes.forward =
      tokens * model.hidden_size * size + micro_tokens * live + mixing + experts(false) + kLogitTile;
  if (job.job.kind != JobKind::kTrain) return bytes;

  const std::int64_t choices = model.moe_layer_count() * model.experts_per_token * 8;
  const std::int64_t inputs = tokens * ((model.layer_count() + 2) * model.hidden_size * size + choices);
  const bool keeps_graphs = job.train.recompute == Recompute::kNone;
  // A recomputed layer's activations and their gradients are there together.
  const std::int64_t graphs =
      keeps_graphs ? tokens * model.layer_count() * live + micro_tokens * live : 2 * micro_tokens * live;
  bytes.forward += inputs + (keeps_graphs ? tokens * model.layer_count() * live : 0);
  bytes.backward = inputs + graphs + mixing + experts(true) + 2 * kLogitTile;
  return bytes;
}

}  // namespace sluice
