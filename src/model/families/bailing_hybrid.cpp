#include "model/families/bailing_hybrid.hpp"

#include "model/blocks/embedding_and_head.hpp"
#include "model/blocks/latent_attention.hpp"
#include "model/blocks/layer_blocks.hpp"
#include "model/families/bailing_moe_v2.hpp"
#include "model/kimi_delta_names.hpp"
#include "model/latent_config.hpp"
#include "model/manifest_builder.hpp"
#include "model/rotary_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

/// Refuses other architectures of this model_type, and what the published code knows beside what is computed here.
void refuse_other_lings(const ConfigReader& given) {
  const ConfigReader config = given.with(Nulls::kAbsent);
  for (const std::string& name : config.texts({"architectures"}))
    if (name != "BailingMoeV3ForCausalLM" && name != "BailingHybridForCausalLM")
      config.refuse("architectures", "'BailingMoeV3ForCausalLM', as Ling 3.0 has it");
  for (const char* key :
       {"use_bias", "use_qkv_bias", "use_mla_nope", "use_kda_lora", "use_nGPT", "scale_router_input",
        "value_norm", "up_proj_norm", "tie_word_embeddings", "attention_bias"})
    if (config.boolean({key}, false)) config.refuse(key, "false");
  for (const char* key : {"moe_router_enable_expert_bias", "no_kda_lora", "rope_interleave", "use_qk_norm"})
    if (!config.boolean({key}, true)) config.refuse(key, "true");
  expect_text(config, "score_function", "sigmoid");
  expect_text(config, "router_dtype", "fp32");
  expect_text(config, "gated_attention_proj_granularity_type", "head_wise");
}

/// Refuses what contradicts another spelling of it, or has no value.
void refuse_other_spellings(const ConfigReader& config) {
  expect_same_number(config, "num_expert_group", "n_group");
  expect_same_number(config, "num_experts_per_token", "num_experts_per_tok");
  if (config.is_null("num_nextn_predict_layers")) config.refuse("num_nextn_predict_layers", "an integer");
}

void read_grouped_mixers(const ConfigReader& config, ModelConfig& model) {
  if (!read_layer_mixers(config, "linear_attention", AttentionKind::kKimiDelta, model)) {
    const std::int64_t period = config.integer({"layer_group_size"}, 6);
    for (std::int64_t layer = 0; layer < model.layer_count(); ++layer)
      if ((layer + 1) % period != 0)
        model.attention[static_cast<std::size_t>(layer)] = AttentionKind::kKimiDelta;
  }
  std::ranges::replace(model.attention, AttentionKind::kFull, AttentionKind::kLatent);
  LinearAttentionConfig& linear = model.linear_attention;
  linear.key_heads = linear.value_heads = model.attention_heads;
  linear.key_head_dim = linear.value_head_dim = config.integer({"linear_head_dim", "head_dim"}, 128);
  linear.conv_kernel_size = config.integer({"short_conv_kernel_size"}, 4, 1, 1024);
  for (const auto& [key, expected] : {std::pair("linear_num_heads", linear.key_heads),
                                      std::pair("linear_conv_kernel_dim", linear.conv_kernel_size)})
    if (config.integer({key}, expected) != expected) config.refuse(key, fmt::to_string(expected));
  if (!config.boolean({"kda_safe_gate"}, true)) return;
  linear.least_log_decay = config.number({"kda_lower_bound"}, -5.0);
  if (*linear.least_log_decay >= 0) config.refuse("kda_lower_bound", "a number below 0");
}

/// Publishes all tensors of a layer's mixer under `attention`.
void publish_ling_mixer(const ModelConfig& config, int layer, ParameterManifest& manifest) {
  const AttentionKind kind = config.attention[static_cast<std::size_t>(layer)];
  if (kind == AttentionKind::kKimiDelta) publish_kimi_delta(config, layer, manifest, "attention");
  for (const BlockTensor& tensor : block_of(kind).tensors(config)) {
    const std::string own = layer_tensor_name(layer, tensor.name);
    if (manifest.joined_with(manifest.find(own).value()) != nullptr) continue;
    const std::string dense = layer_tensor_name(layer, "attention.dense.weight");
    const std::string plain =
        layer_tensor_name(layer, fmt::format("attention{}", tensor.name.substr(tensor.name.find('.'))));
    const bool is_output = tensor.name == blocks::latent_attention::kOProj,
               is_dense = is_output && kind == AttentionKind::kLatent;
    publish_as(is_dense ? dense : plain, {own}, manifest, JoinedIn::kCheckpoints);
    if (is_output && !is_dense) manifest.add_other_name(dense, plain);  // as transformers writes it
  }
}

}  // namespace

ModelConfig read_bailing_hybrid_config(const ConfigReader& config) {
  refuse_other_lings(config);
  refuse_other_spellings(config);
  const CommonDefaults defaults{.key_value_heads = 32,
                                .null_key_value_heads = true,
                                .padding_token = 156'892,
                                .ignores_rotary_share = true,
                                .rope_theta = 6e6};
  // head_dim is that of Kimi delta attention, and partial_rotary_factor a share of it.
  ModelConfig model =
      read_latent_config(config, defaults, {.rotates = false, .query_rank_may_be_left_out = true});
  model.rotary = read_rotary_config(config, defaults, model.latent_attention.rope_dim);
  model.rotary.interleaved = true;
  if (config.with(Nulls::kAbsent).integer({"rotary_dim"}, model.rotary.dim) != model.rotary.dim)
    config.refuse("rotary_dim", fmt::format("qk_rope_head_dim = {}", model.rotary.dim));
  model.latent_attention.score_factor = read_score_factor(config, nullptr);
  model.attention_output_gate = model.separate_gate = model.gate_per_head = true;
  model.prediction_layers = read_prediction_layers(config, "num_nextn_predict_layers",
                                                   config.integer({"num_mtp_layers"}, 1, 0, 1024));
  read_grouped_mixers(config, model);
  model.intermediate_size = config.integer({"intermediate_size"});
  read_bailing_experts(config, {.normalize = true, .groups = 8, .chosen_groups = 4, .scale = 2.5}, model);
  read_first_dense_layers(config, 2, model);
  read_silu_limits(config, "expert_swiglu_limit_list", "share_expert_swiglu_limit_list", model);
  return model;
}

ParameterManifest describe_bailing_hybrid(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_published_experts(kBailingExperts);
  publish_as("model.word_embeddings.weight", {std::string(blocks::embedding_and_head::kEmbedding)}, manifest,
             JoinedIn::kCheckpoints);
  for (int layer = 0; layer < config.layer_count(); ++layer) publish_ling_mixer(config, layer, manifest);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  return manifest;
}

}  // namespace sluice
