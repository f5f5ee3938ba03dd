#include "model/blocks/attention.hpp"

#include "base/bytes.hpp"
#include "base/dtype.hpp"
#include "base/round.hpp"
#include "model/blocks/norms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace sluice::blocks::attention {
namespace {

/// Bytes of attention's working buffers: for the key heads that threads work on at a time, their keys and
/// values packed three times, and the gradients of both; for each thread, the queries that it takes over the
/// keys, packed four times, with their gradients, and a panel of scores and gradients. On matrix tiles packed
/// numbers take 2 bytes; elsewhere float32 in rows of 272, which lines of less than 256 share: that counts here.
std::int64_t working_bytes(const ModelConfig& config, const PassSize& pass) {
  constexpr std::int64_t kPositions = 256, kQueries = kMiB, kPanel = 336 * kKiB, kRow = 272, kRowDepth = 256;
  const std::int64_t workers = pass.workers();
  const std::int64_t lines = pass.length * std::min(pass.sequences * config.key_value_heads, workers);
  const std::int64_t width = round_up<std::int64_t>(config.padded_head_dim(), 32),
                     float_size = size_of(DType::kFloat32);
  const std::int64_t by_position = width < kRowDepth ? divide_up(lines * kRow, kRowDepth / width)
                                                     : lines * kRow * divide_up(width, kRowDepth);
  const std::int64_t by_width = divide_up(lines, kRowDepth) * kRow * width, gradients = 2 * lines * width;
  const std::int64_t group = config.attention_heads / std::max<std::int64_t>(1, config.key_value_heads);
  // Backward packs some positions four times, beside their gradients; forward packs queries, beside the output.
  const std::int64_t queries = std::max(
      {kQueries, kPositions * width * (4 + 1) * float_size, group * kPositions / 2 * width * 2 * float_size});
  return (2 * by_position + by_width + gradients) * float_size + workers * (queries + kPanel);
}

/// Adds a projection, with its bias if the model has one.
void add_projection(const ModelConfig& config, std::string_view weight, std::string_view bias,
                    std::int64_t width, std::vector<BlockTensor>& out) {
  out.push_back({weight, {width, config.hidden_size}, Role::kAttention});
  if (config.attention_bias) out.push_back({bias, {width}, Role::kAttention, InitialValues::kZeros});
}

/// Whether q_proj makes the output gate with the queries.
bool has_joint_gate(const ModelConfig& config) {
  return config.attention_output_gate && !config.separate_gate;
}

std::string heads_text(const AttentionHeads& heads) {
  const bool differ = heads.value_size > 0 && heads.value_size != heads.size;
  return fmt::format("{}/{} x {}{}{}{}", heads.queries, heads.keys_and_values, heads.size,
                     differ ? fmt::format(", values x {}", heads.value_size) : "",
                     heads.values_are_keys ? ", values are keys" : "", heads.has_sinks ? ", sinks" : "");
}

}  // namespace

std::int64_t gate_values(const ModelConfig& config, std::int64_t head_size) {
  return config.attention_heads * (config.gate_per_head ? 1 : head_size);
}

std::int64_t kept_of_gate(const ModelConfig& config, std::int64_t head_size, const PassSize& pass) {
  const std::int64_t outputs = config.attention_heads * head_size;
  if (has_joint_gate(config)) return 4 * outputs;
  if (!config.separate_gate) return 0;
  const std::int64_t arguments = config.softplus_gate ? size_of(DType::kFloat32) / pass.element_bytes : 0;
  return outputs + (1 + arguments) * gate_values(config, head_size);
}

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  const std::int64_t queries = config.attention_heads * config.head_dim;
  const std::int64_t keys = config.key_value_heads * config.head_dim;
  const std::int64_t value_dim = config.value_head_dim();
  std::vector<BlockTensor> out;
  add_projection(config, kQProj, kQBias, has_joint_gate(config) ? 2 * queries : queries, out);
  add_projection(config, kKProj, kKBias, keys, out);
  if (!config.values_are_keys)
    add_projection(config, kVProj, kVBias, config.key_value_heads * value_dim, out);
  out.push_back({kOProj, {config.hidden_size, config.attention_heads * value_dim}, Role::kAttention});
  if (config.attention_output_bias)
    out.push_back({kOBias, {config.hidden_size}, Role::kAttention, InitialValues::kZeros});
  if (config.separate_gate)
    out.push_back({kGateProj, {gate_values(config, value_dim), config.hidden_size}, Role::kAttention});
  if (config.attention_sinks) out.push_back({kSinks, {config.attention_heads}, Role::kAttention});
  if (config.query_key_norm == QueryKeyNorm::kNone) return out;
  const bool is_whole = config.query_key_norm == QueryKeyNorm::kWholeProjection;
  out.push_back(norms::weight(config, kQNorm, is_whole ? queries : config.head_dim));
  out.push_back(norms::weight(config, kKNorm, is_whole ? keys : config.head_dim));
  return out;
}

std::vector<Setting> settings(const ModelConfig& config) {
  std::vector<Setting> out{{"num_attention_heads", fmt::to_string(config.attention_heads)},
                           {"num_key_value_heads", fmt::to_string(config.key_value_heads)},
                           {"head_dim", fmt::to_string(config.head_dim)}};
  if (!config.heads_by_layer.empty()) {
    std::string text;
    for (const AttentionHeads& heads : config.heads_by_layer)
      text += (text.empty() ? "" : ", ") + heads_text(heads);
    out.push_back({"heads by layer", text});
  }
  if (config.norms_behind_rotation) out.push_back({"norms of queries and keys", "behind their rotation"});
  if (config.score_factor) out.push_back({"factor of scores", fmt::to_string(*config.score_factor)});
  if (config.value_factor != 1) out.push_back({"factor of values", fmt::to_string(config.value_factor)});
  return out;
}

std::vector<Setting> sliding_settings(const ModelConfig& config) {
  std::string layers;
  for (std::size_t layer = 0; layer < config.attention.size(); ++layer)
    if (config.attention[layer] == AttentionKind::kSliding) layers += fmt::format(" {}", layer);
  if (layers.empty()) return {};
  return {{"sliding_window", fmt::format("{} in layers{}", config.sliding_window, layers)}};
}

BlockActivations activations(const ModelConfig& config, const PassSize& pass) {
  const std::int64_t width = config.padded_head_dim(), value_dim = config.value_head_dim();
  const std::int64_t queries = config.attention_heads * width, keys = config.key_value_heads * width;
  const std::int64_t gate = kept_of_gate(config, value_dim, pass);
  const std::int64_t sums = 2 * config.attention_heads;
  // Values before their norm, and the result without the entries by which values were padded.
  const std::int64_t values =
      (config.value_norm ? keys : 0) + (value_dim < width ? config.attention_heads * value_dim : 0);
  return {.kept = config.hidden_size + 2 * queries + 3 * keys + values + gate + sums,
          .passed = 2 * queries + 2 * keys + values + gate +
                    (config.attention_output_bias ? config.hidden_size : 0),
          .recorded = queries + sums,
          .working_bytes = working_bytes(config, pass)};
}

BlockCache cache(const ModelConfig& config, std::int64_t element_bytes) {
  return {.position_bytes =
              config.key_value_heads * (config.head_dim + config.value_head_dim()) * element_bytes};
}

}  // namespace sluice::blocks::attention
