#include "model/families/qwen3_5.hpp"

#include "base/error.hpp"
#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"
#include "model/wrapped_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sluice {
namespace {

// Largest number of heads, and largest size of one, so that products are far from overflow.
constexpr std::int64_t kMaxHeads = 65'536;
constexpr std::int64_t kMaxHeadDim = 65'536;

/// Reads the kinds of attention: three linear layers, then a full one, unless layer_types names each layer.
void read_attention_kinds(const ConfigReader& config, ModelConfig& model) {
  if (read_layer_mixers(config, "linear_attention", AttentionKind::kLinear, model)) return;
  const std::int64_t interval = config.integer({"full_attention_interval"}, 4);
  for (std::int64_t layer = 0; layer < model.layer_count(); ++layer)
    if ((layer + 1) % interval != 0)
      model.attention[static_cast<std::size_t>(layer)] = AttentionKind::kLinear;
}

void read_linear_attention(const ConfigReader& config, ModelConfig& model) {
  LinearAttentionConfig& linear = model.linear_attention;
  linear.key_heads = config.integer({"linear_num_key_heads"}, {}, 1, kMaxHeads);
  linear.value_heads = config.integer({"linear_num_value_heads"}, {}, 1, kMaxHeads);
  if (linear.value_heads % linear.key_heads != 0)
    config.refuse("linear_num_value_heads",
                  fmt::format("a multiple of linear_num_key_heads = {}", linear.key_heads));
  linear.key_head_dim = config.integer({"linear_key_head_dim"}, {}, 1, kMaxHeadDim);
  linear.value_head_dim = config.integer({"linear_value_head_dim"}, {}, 1, kMaxHeadDim);
  linear.conv_kernel_size = config.integer({"linear_conv_kernel_dim"});
}

}  // namespace

ModelConfig read_hybrid_config(const ConfigReader& config, std::int64_t key_value_heads) {
  ModelConfig model = read_common_config(
      config, {.key_value_heads = key_value_heads, .head_dim = 256, .partial_rotary_factor = 0.25});
  if (model.attention_heads > kMaxHeads)
    config.refuse("num_attention_heads", fmt::format("at most {}", kMaxHeads));
  if (!config.with(Nulls::kAbsent).boolean({"attn_output_gate"}, true))
    config.refuse("attn_output_gate", "true");
  model.query_key_norm = QueryKeyNorm::kPerHead;
  model.attention_output_gate = true;
  model.zero_centred_norms = true;
  read_attention_kinds(config, model);
  read_linear_attention(config, model);
  return model;
}

ModelConfig read_qwen3_5_text_config(const ConfigReader& config) {
  ModelConfig model = read_hybrid_config(config, 4);
  model.intermediate_size = config.integer({"intermediate_size"});
  return model;
}

ModelConfig read_qwen3_5_moe_text_config(const ConfigReader& config) {
  ModelConfig model = read_hybrid_config(config, 2);
  if (!config.integers({"mlp_only_layers"}).empty()) config.refuse("mlp_only_layers", "an empty list");
  read_expert_config(config, "moe_intermediate_size", model);
  model.shared_expert_intermediate_size = config.integer({"shared_expert_intermediate_size"});
  model.shared_expert_gate = true;
  model.router.normalize = true;
  std::ranges::fill(model.layers, MlpKind::kMoe);
  return model;
}

ModelConfig read_qwen3_5_config(const ConfigReader& config) {
  return read_wrapped_config(config, {"qwen3_5_text"}, TiedBy::kWrapper, read_qwen3_5_text_config);
}

ModelConfig read_qwen3_5_moe_config(const ConfigReader& config) {
  return read_wrapped_config(config, {"qwen3_5_moe_text"}, TiedBy::kWrapper, read_qwen3_5_moe_text_config);
}

ParameterManifest describe_qwen3_5_text(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.add_foreign_part(ForeignPart::kVisionTower);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  return manifest;
}

ParameterManifest describe_qwen3_5(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_qwen3_5_text(config, dtype);
  manifest.set_published_prefix("model.language_model.");
  return manifest;
}

}  // namespace sluice
