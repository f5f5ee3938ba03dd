#include "model/families/gemma4.hpp"

#include "model/blocks/experts.hpp"
#include "model/blocks/norms.hpp"
#include "model/blocks/router.hpp"
#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"
#include "model/rotary_config.hpp"
#include "model/wrapped_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace sluice {
namespace {

/// Rotary settings of Gemma4TextConfig, for a config.json without any.
constexpr const char* kGemmaRotary =
    R"({"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0}})";

void refuse_unsupported(const ConfigReader& config) {
  const ConfigReader optional = config.with(Nulls::kAbsent);
  if (config.text({"hidden_activation"}, "gelu_pytorch_tanh") != "gelu_pytorch_tanh")
    config.refuse("hidden_activation", "'gelu_pytorch_tanh'");
  if (!config.boolean({"enable_moe_block"}, false)) config.refuse("enable_moe_block", "true");
  if (optional.integer({"hidden_size_per_layer_input"}, 256, 0) != 0)
    config.refuse("hidden_size_per_layer_input", "0: embeddings by layer are not computed");
  if (config.integer({"num_kv_shared_layers"}, 0, 0) != 0)
    config.refuse("num_kv_shared_layers", "0: keys and values are not shared between layers");
  expect_text(config, "use_bidirectional_attention", "vision");
}

/// Refuses heads that do not fit each other, by the keys that have told of them.
void expect_heads(const ConfigReader& from, const char* size, const char* key_heads,
                  const AttentionHeads& heads) {
  if (heads.size % 2 != 0) from.refuse(size, "an even number");
  if (heads.queries % heads.keys_and_values != 0)
    from.refuse(key_heads, fmt::format("a divisor of num_attention_heads = {}", heads.queries));
}

/// Reads the heads of a layer from per_layer_config, where the config has it, else from the keys of full layers.
AttentionHeads heads_of(const ConfigReader& config, const ModelConfig& model, int layer, bool is_full,
                        bool shares_values) {
  AttentionHeads heads{model.attention_heads, model.key_value_heads, model.head_dim,
                       is_full && shares_values};
  const ConfigReader optional = config.with(Nulls::kAbsent);
  if (const std::optional<ConfigReader> own = settings_of_layer(config, layer)) {
    heads.size = own->integer({"head_dim"}, heads.size);
    heads.keys_and_values = own->integer({"num_key_value_heads"}, heads.keys_and_values);
    expect_heads(*own, "head_dim", "num_key_value_heads", heads);
  } else if (is_full && !config.has("per_layer_config")) {
    heads.size = optional.integer({"global_head_dim"}, 512);
    if (shares_values)
      heads.keys_and_values = optional.integer({"num_global_key_value_heads"}, heads.keys_and_values);
    expect_heads(config, "global_head_dim", "num_global_key_value_heads", heads);
  }
  return heads;
}

/// Refuses layers of one kind with heads of several sizes, for which there is one rotary embedding.
void expect_one_size_by_kind(const ConfigReader& config, const ModelConfig& model) {
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    const auto index = static_cast<std::size_t>(layer);
    const auto first = std::ranges::find(model.attention, model.attention[index]) - model.attention.begin();
    if (model.heads_by_layer[index].size != model.heads_by_layer[static_cast<std::size_t>(first)].size)
      config.refuse("layer_types", "layers of one kind whose heads have one size in per_layer_config");
  }
}

/// Refuses a share of the head to rotate beside a type that ignores it.
void expect_shares_that_count(const ConfigReader& config) {
  const std::optional<ConfigReader> all = config.object({"rope_parameters"});
  for (const char* kind : {"full_attention", "sliding_attention"}) {
    const std::optional<ConfigReader> own = all ? all->object({kind}) : std::nullopt;
    if (own && own->text({"rope_type"}, "default") == "default" &&
        own->number({"partial_rotary_factor"}, 1.0) != 1)
      own->refuse("rope_type", "'proportional' beside a partial_rotary_factor other than 1");
  }
}

void read_layers(const ConfigReader& config, ModelConfig& model) {
  if (!config.has("layer_types"))
    for (int layer = 0; layer < model.layer_count(); ++layer)
      if ((layer + 1) % 6 != 0) model.attention[static_cast<std::size_t>(layer)] = AttentionKind::kSliding;
  read_windows(config, 512, model);
  model.attention.back() = AttentionKind::kFull;
  const bool shares_values = config.boolean({"attention_k_eq_v"}, false);
  for (int layer = 0; layer < model.layer_count(); ++layer)
    model.heads_by_layer.push_back(
        heads_of(config, model, layer,
                 model.attention[static_cast<std::size_t>(layer)] == AttentionKind::kFull, shares_values));
  expect_one_size_by_kind(config, model);
  expect_shares_that_count(config);
  read_rotary_by_kind(config, kGemmaRotary, model, 1.0);
}

void publish_layer(int layer, ParameterManifest& manifest) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"router.proj.weight", "mlp.gate.weight"},
      {"router.scale", blocks::router::kInputScale},
      {"router.per_expert_scale", blocks::router::kExpertScales},
      {"experts.gate_up_proj", blocks::experts::kGateUpProj},
      {"experts.down_proj", blocks::experts::kDownProj},
      {"pre_feedforward_layernorm.weight", blocks::norms::kPreMlp},
      {"post_feedforward_layernorm.weight", blocks::norms::kPostMlp},
      {"post_feedforward_layernorm_1.weight", blocks::norms::kPostDense},
      {"pre_feedforward_layernorm_2.weight", blocks::norms::kPreExperts},
      {"post_feedforward_layernorm_2.weight", blocks::norms::kPostExperts}};
  for (const auto& [name, tensor] : kNames)
    publish_as(layer_tensor_name(layer, name), {layer_tensor_name(layer, tensor)}, manifest);
}

}  // namespace

ModelConfig read_gemma4_text_config(const ConfigReader& config) {
  refuse_unsupported(config);
  ModelConfig model = read_common_config(config, {.key_value_heads = 4,
                                                  .head_dim = 256,
                                                  .padding_token = 0,
                                                  .tie_word_embeddings = true,
                                                  .rotary_by_kind = true});
  model.query_key_norm = QueryKeyNorm::kPerHead;
  model.value_norm = model.branch_norms = model.unrounded_norms = model.layer_scalars = true;
  model.score_factor = 1;
  model.embedding_factor = std::sqrt(static_cast<double>(model.hidden_size));
  model.rounded_embedding_factor = true;
  model.logit_cap = config.with(Nulls::kAbsent).number({"final_logit_softcapping"}, 0.0);
  if (model.logit_cap < 0) config.refuse("final_logit_softcapping", "null or a number above 0");
  model.mlp_activation = MlpActivation::kGeluTanh;
  read_layers(config, model);
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  model.router = {
      .scales_input = true, .has_expert_scales = true, .normalize = true, .knows_balancing_loss = false};
  std::ranges::fill(model.layers, MlpKind::kDenseAndMoe);
  return model;
}

ModelConfig read_gemma4_config(const ConfigReader& config) {
  return read_wrapped_config(config, {"gemma4_text"}, TiedBy::kWrapper, read_gemma4_text_config);
}

ParameterManifest describe_gemma4_text(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_fused_experts();
  for (int layer = 0; layer < config.layer_count(); ++layer) publish_layer(layer, manifest);
  return manifest;
}

ParameterManifest describe_gemma4(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_gemma4_text(config, dtype);
  manifest.add_foreign_part(ForeignPart::kVisionTower);
  manifest.set_published_prefix("model.language_model.");
  return manifest;
}

}  // namespace sluice
