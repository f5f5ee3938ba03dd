#include "model/families/lfm2_moe.hpp"

#include "model/blocks/attention.hpp"
#include "model/blocks/dense_mlp.hpp"
#include "model/blocks/norms.hpp"
#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {
namespace {

void read_lfm2_mixers(const ConfigReader& config, ModelConfig& model) {
  if (!read_layer_mixers(config, "conv", AttentionKind::kShortConv, model))
    config.refuse("layer_types", "'conv' or 'full_attention' for each layer");
  model.short_conv_taps = config.integer({"conv_L_cache"}, 3, 1, 1024);
  if (config.boolean({"conv_bias"}, false)) config.refuse("conv_bias", "false");
}

void publish_layer(const ModelConfig& config, int layer, ParameterManifest& manifest) {
  const auto index = static_cast<std::size_t>(layer);
  const auto publish = [&](std::string_view name, std::string_view tensor) {
    publish_as(layer_tensor_name(layer, name), {layer_tensor_name(layer, tensor)}, manifest);
  };
  if (config.attention[index] == AttentionKind::kFull) {
    publish("self_attn.out_proj.weight", blocks::attention::kOProj);
    publish("self_attn.q_layernorm.weight", blocks::attention::kQNorm);
    publish("self_attn.k_layernorm.weight", blocks::attention::kKNorm);
  }
  if (config.layers[index] == MlpKind::kDense) {
    publish("feed_forward.w1.weight", blocks::dense_mlp::kNames.gate_proj);
    publish("feed_forward.w3.weight", blocks::dense_mlp::kNames.up_proj);
    publish("feed_forward.w2.weight", blocks::dense_mlp::kNames.down_proj);
  }
  publish("operator_norm.weight", blocks::norms::kInput);
  publish("ffn_norm.weight", blocks::norms::kPostAttention);
}

}  // namespace

ModelConfig read_lfm2_moe_config(const ConfigReader& config) {
  ModelConfig model = read_common_config(config, {.key_value_heads = 8,
                                                  .padding_token = 0,
                                                  .rms_norm_eps_key = "norm_eps",
                                                  .rms_norm_eps = 1e-5,
                                                  .rope_theta = 1e6,
                                                  .tie_word_embeddings = true});
  model.tie_word_embeddings = config.boolean({"tie_embedding"}, model.tie_word_embeddings);
  model.query_key_norm = QueryKeyNorm::kPerHead;
  read_lfm2_mixers(config, model);
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  model.experts_before_router = true;
  model.router = {.score = RouterScore::kSigmoid,
                  .has_correction_bias = config.boolean({"use_expert_bias"}, true),
                  .normalize = config.boolean({"norm_topk_prob"}, true),
                  .epsilon = 1e-6,
                  .scale = config.positive({"routed_scaling_factor"}, 1.0),
                  .knows_balancing_loss = false};
  const std::int64_t dense = config.integer({"num_dense_layers"}, 2, 0);
  std::fill(model.layers.begin() + std::min<std::int64_t>(dense, model.layer_count()), model.layers.end(),
            MlpKind::kMoe);
  return model;
}

ParameterManifest describe_lfm2_moe(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_published_experts(kLfm2Experts);
  manifest.set_tree_experts(kLfm2Experts);
  for (int layer = 0; layer < config.layer_count(); ++layer) publish_layer(config, layer, manifest);
  publish_as("model.embedding_norm.weight", {std::string(blocks::norms::kFinal)}, manifest);
  return manifest;
}

}  // namespace sluice
