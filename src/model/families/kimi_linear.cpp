#include "model/families/kimi_linear.hpp"

#include "model/kimi_delta_names.hpp"
#include "model/latent_config.hpp"
#include "model/manifest_builder.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice {
namespace {

constexpr const char* kLinearConfig = "linear_attn_config";

/// Sets the mixers of the layers that a list of `linear` names, counted from 1.
void read_numbered_layers(const ConfigReader& linear, const char* key, AttentionKind mixer,
                          ModelConfig& model) {
  for (const std::int64_t number : linear.integers({key})) {
    if (number < 1 || number > model.layer_count()) linear.refuse(key, "numbers of layers, counted from 1");
    model.attention[static_cast<std::size_t>(number - 1)] = mixer;
  }
}

/// Reads the mixer of each layer: from layer_types, else from two lists, else every fourth from the fifth on attends.
void read_kimi_mixers(const ConfigReader& config, ModelConfig& model) {
  if (read_layer_mixers(config, "linear_attention", AttentionKind::kKimiDelta, model)) {
    std::ranges::replace(model.attention, AttentionKind::kFull, AttentionKind::kLatent);
    return;
  }
  const auto linear = config.object({kLinearConfig});
  if (linear && linear->has("kda_layers") && linear->has("full_attn_layers")) {
    std::ranges::fill(model.attention, AttentionKind::kNone);
    read_numbered_layers(*linear, "full_attn_layers", AttentionKind::kLatent, model);
    read_numbered_layers(*linear, "kda_layers", AttentionKind::kKimiDelta, model);
    if (std::ranges::count(model.attention, AttentionKind::kNone) > 0)
      config.refuse(kLinearConfig, "each layer in kda_layers or in full_attn_layers");
    return;
  }
  for (std::size_t layer = 0; layer < model.attention.size(); ++layer)
    model.attention[layer] = layer > 0 && layer % 4 == 0 ? AttentionKind::kLatent : AttentionKind::kKimiDelta;
}

/// Reads heads, their size and the width of the convolution, from linear_attn_config where it has them.
LinearAttentionConfig read_kimi_delta_heads(const ConfigReader& config) {
  const std::optional<ConfigReader> nested = config.object({kLinearConfig});
  constexpr std::int64_t kMostTaps = 1024;
  const auto read = [&](const char* inner, const char* outer, std::int64_t otherwise, std::int64_t most) {
    return nested && nested->has(inner) ? nested->integer({inner}, {}, 1, most)
                                        : config.integer({outer}, otherwise, 1, most);
  };
  constexpr std::int64_t kMost = 65'536;
  const std::int64_t heads = read("num_heads", "linear_num_heads", 32, kMost);
  const std::int64_t size = read("head_dim", "linear_head_dim", 128, kMost);
  return {.key_heads = heads,
          .value_heads = heads,
          .key_head_dim = size,
          .value_head_dim = size,
          .conv_kernel_size = read("short_conv_kernel_size", "linear_conv_kernel_dim", 4, kMostTaps)};
}

/// Refuses what Kimi K3 has under the same model_type.
void refuse_kimi_k3(const ConfigReader& config) {
  const ConfigReader optional = config.with(Nulls::kAbsent);
  if (!optional.boolean({"mla_use_nope"}, true)) config.refuse("mla_use_nope", "true");
  for (const char* key : {"mla_use_output_gate", "latent_moe_use_norm"})
    if (optional.boolean({key}, false)) config.refuse(key, "false");
  for (const char* key : {"routed_expert_hidden_size", "attn_res_block_size"})
    if (config.has(key)) config.refuse(key, "null");
  if (config.is_null(kLinearConfig)) config.refuse(kLinearConfig, "an object, or none");
  if (const auto linear = config.object({kLinearConfig}))
    for (const char* key : {"gate_lower_bound", "use_full_rank_gate"})
      if (linear->has(key)) linear->refuse(key, "null");
  if (optional.integer({"moe_layer_freq"}, 1) != 1) config.refuse("moe_layer_freq", "1");
  if (!optional.boolean({"use_grouped_topk"}, true)) config.refuse("use_grouped_topk", "true");
  expect_text(config, "moe_router_activation_func", "sigmoid");
  static_cast<void>(config.has("rope_scaling"));  // without an effect, as nothing is rotated
}

}  // namespace

ModelConfig read_kimi_linear_config(const ConfigReader& config) {
  refuse_kimi_k3(config);
  ModelConfig model = read_latent_config(
      config,
      {.key_value_heads = 32, .null_key_value_heads = true, .padding_token = 163839, .rms_norm_eps = 1e-5},
      {.rotates = false, .query_rank_may_be_left_out = true});
  model.linear_attention = read_kimi_delta_heads(config);
  model.linear_attention.gate_rank = model.linear_attention.key_head_dim;
  model.linear_attention.rate_has_four_dims = true;
  model.prediction_layers = read_prediction_layers(config, "num_nextn_predict_layers", 0);
  read_kimi_mixers(config, model);
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  read_shared_experts(config, 1, model);
  model.experts_before_router = true;
  read_sigmoid_router(config, {.normalize = true, .groups = 1, .chosen_groups = 1, .scale = 2.446}, model);
  read_first_dense_layers(config, 1, model);
  return model;
}

ParameterManifest describe_kimi_linear(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_published_experts(kKimiExperts);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  for (int layer = 0; layer < config.layer_count(); ++layer)
    if (config.attention[static_cast<std::size_t>(layer)] == AttentionKind::kKimiDelta)
      publish_kimi_delta(config, layer, manifest);
  return manifest;
}

}  // namespace sluice
