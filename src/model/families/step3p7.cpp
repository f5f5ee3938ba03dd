#include "model/families/step3p7.hpp"

#include "base/text.hpp"
#include "model/blocks/attention.hpp"
#include "model/blocks/shared_expert.hpp"
#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"
#include "model/rotary_config.hpp"
#include "model/wrapped_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// Refuses what the published code knows beside what is computed here, and spellings that contradict each other.
void refuse_other_steps(const ConfigReader& given) {
  const ConfigReader config = given.with(Nulls::kAbsent);
  for (const char* key : {"sink", "use_bidirectional_attention"})
    if (config.boolean({key}, false)) config.refuse(key, "false");
  if (given.boolean({"mlp_bias"}, false)) config.refuse("mlp_bias", "false");
  for (const char* key : {"use_moe", "use_moe_router_bias", "norm_expert_weight", "use_head_wise_attn_gate",
                          "zero_centered", "use_qk_norm", "need_fp32_gate"})
    if (!config.boolean({key}, true)) config.refuse(key, "true");
  if (given.holds_text("gating") ? given.text({"gating"}) != "per-head" : !given.boolean({"gating"}, true))
    given.refuse("gating", "true or 'per-head'");
  for (const char* key : {"pad_token_id", "per_layer_config"})
    if (given.is_null(key)) given.refuse(key, "a value, or no such key");
  expect_text(config, "moe_router_activation", "sigmoid");
  expect_text(config, "att_impl_type", "GQA");
  if (!config.integers({"use_rope_layers"}).empty()) config.refuse("use_rope_layers", "an empty list");
  for (const std::string& kind : config.texts({"yarn_only_types"}))
    if (kind != "full_attention") config.refuse("yarn_only_types", "['full_attention']");
  for (const char* key : {"moe_num_experts", "num_local_experts", "num_experts"})
    for (const char* other : {"n_routed_experts", "moe_num_experts", "num_local_experts"})
      expect_same_number(given, key, other);
  expect_same_number(given, "num_mtp_layers", "num_nextn_predict_layers", 0);
  expect_same_number(given, "moe_top_k", "num_experts_per_tok");
  expect_same_number(given, "num_attention_groups", "num_key_value_heads");
  expect_same_number(given, "share_expert_dims", "share_expert_dim");
  if (config.integer({"moe_every_n_layer"}, 1) != 1) config.refuse("moe_every_n_layer", "1");
  if (config.integer({"moe_layer_offset"}, 0, 0) != 0) config.refuse("moe_layer_offset", "0");
}

constexpr const char* kSlidingHeads = "num_sliding_attention_heads";

/// Query heads of layers with a window, as published files or those of transformers 5 have it; nothing if neither is
/// there.
std::optional<std::int64_t> read_sliding_heads(const ConfigReader& config, const ModelConfig& model) {
  std::optional<std::int64_t> heads;
  if (const auto other = config.object({"attention_other_setting"})) {
    heads = other->integer({"num_attention_heads"}, model.attention_heads);
    for (const auto& [key, expected] :
         {std::pair("num_attention_groups", model.key_value_heads),
          std::pair("num_key_value_heads", model.key_value_heads), std::pair("head_dim", model.head_dim)})
      if (other->integer({key}, expected) != expected) other->refuse(key, fmt::to_string(expected));
    expect_text(*other, "attention_type", "sliding_attention");
  }
  if (!config.has(kSlidingHeads)) return heads;
  const std::int64_t own = config.integer({kSlidingHeads});
  if (own != heads.value_or(own))
    config.refuse(kSlidingHeads, fmt::format("{}, as attention_other_setting has it", *heads));
  return own;
}

void read_heads_by_kind(const ConfigReader& config, ModelConfig& model) {
  const std::optional<std::int64_t> of_windows = read_sliding_heads(config, model);
  const bool is_by_layer = config.has("per_layer_config");
  const char* const of_window_key = config.has(kSlidingHeads) ? kSlidingHeads : "attention_other_setting";
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    const bool is_sliding = model.attention[static_cast<std::size_t>(layer)] == AttentionKind::kSliding;
    std::int64_t heads =
        is_sliding && !is_by_layer ? of_windows.value_or(model.attention_heads) : model.attention_heads;
    if (const auto own = settings_of_layer(config, layer)) {
      for (const std::string& key : own->keys())
        if (key != "num_attention_heads") own->refuse(key.c_str(), "num_attention_heads alone");
      heads = own->integer({"num_attention_heads"}, heads);
    }
    if (is_sliding && heads != of_windows.value_or(heads))
      config.refuse("per_layer_config", fmt::format("{} heads in layers with a window", *of_windows));
    if (heads % model.key_value_heads != 0)
      config.refuse(is_by_layer ? "per_layer_config" : of_window_key,
                    fmt::format("multiples of {} heads of keys", model.key_value_heads));
    model.heads_by_layer.push_back({heads, model.key_value_heads, model.head_dim});
  }
  const AttentionHeads& first = model.heads_by_layer.front();
  if (std::ranges::count(model.heads_by_layer, first) == model.layer_count() &&
      first.queries == model.attention_heads)
    model.heads_by_layer.clear();
}

/// The integers in the list at `key`, or in a text with commas between them.
std::vector<std::int64_t> read_numbers(const ConfigReader& config, const char* key) {
  if (!config.holds_text(key)) return config.integers({key});
  std::string text = config.text({key});
  std::ranges::replace(text, ',', ' ');
  std::istringstream words(text);
  std::vector<std::int64_t> numbers;
  for (std::string word; words >> word;) {
    const std::optional<std::int64_t> number = whole_number(word);
    if (!number) config.refuse(key, "integers with commas between them");
    numbers.push_back(*number);
  }
  return numbers;
}

/// Layers of which the first `dense` have no experts.
std::vector<MlpKind> layers_after(std::int64_t dense, const ModelConfig& model) {
  std::vector<MlpKind> layers(model.layers.size(), MlpKind::kMoe);
  std::fill_n(layers.begin(), std::min<std::int64_t>(dense, model.layer_count()), MlpKind::kDense);
  return layers;
}

/// Takes the layers that moe_layers_enum says have experts, a list or a text of their numbers.
void read_numbered_layers(const ConfigReader& config, ModelConfig& model) {
  constexpr const char* kNumbers = "moe_layers_enum";
  if (!config.has(kNumbers)) return;
  std::vector<MlpKind> layers(model.layers.size(), MlpKind::kDense);
  for (const std::int64_t layer : read_numbers(config, kNumbers)) {
    if (layer < 0 || layer >= model.layer_count() + model.prediction_layers)
      config.refuse(kNumbers, fmt::format("numbers of {} layers", model.layer_count()));
    if (layer < model.layer_count()) layers[static_cast<std::size_t>(layer)] = MlpKind::kMoe;
  }
  if (config.has("mlp_layer_types") && layers != model.layers)
    config.refuse(kNumbers, "the layers that mlp_layer_types says");
  model.layers = layers;
}

/// Reads which layers have experts from mlp_layer_types or moe_layers_enum; without either, all after the first
/// three. transformers 5.24 does not read first_k_dense_replace, so that must agree.
void read_moe_layers(const ConfigReader& config, ModelConfig& model) {
  constexpr const char* kFirst = "first_k_dense_replace";
  model.layers = layers_after(3, model);
  if (config.has("mlp_layer_types")) read_first_dense_layers(config, 3, model);
  read_numbered_layers(config, model);
  if (config.has(kFirst) && layers_after(config.integer({kFirst}, {}, 0), model) != model.layers)
    config.refuse(kFirst, "the layers that mlp_layer_types or moe_layers_enum says, or 3 without either");
}

void read_step_experts(const ConfigReader& config, ModelConfig& model) {
  read_expert_config(config, "moe_intermediate_size", model);
  model.shared_expert_intermediate_size = config.integer({"share_expert_dim", "share_expert_dims"}, 1280);
  model.router = {.score = RouterScore::kSigmoid,
                  .has_correction_bias = true,
                  .normalize = true,
                  .scale = config.positive({"moe_router_scaling_factor"}, 1.0),
                  .knows_balancing_loss = false};
  read_moe_layers(config, model);
  read_silu_limits(config, "swiglu_limits", "swiglu_limits_shared", model);
  for (SwigluLimits& limits : model.limits_by_layer) limits.dense = limits.shared_expert;
}

}  // namespace

ModelConfig read_step3p5_config(const ConfigReader& config) {
  refuse_other_steps(config);
  const bool has_groups = !config.contains("num_key_value_heads");
  ModelConfig model = read_common_config(
      config, {.key_value_heads = 8,
               .key_value_heads_key = has_groups ? "num_attention_groups" : "num_key_value_heads",
               .head_dim = 128,
               .padding_token = 1,
               .takes_attention_bias = true,
               .rms_norm_eps = 1e-5,
               .rotary_by_kind = true});
  model.prediction_layers = config.integer({"num_nextn_predict_layers", "num_mtp_layers"}, 0, 0, 1024);
  model.attention_output_bias = model.attention_bias;
  model.query_key_norm = QueryKeyNorm::kPerHead;
  model.zero_centred_norms = true;
  model.attention_output_gate = model.separate_gate = model.gate_per_head = true;
  read_windows(config, {}, model);
  read_heads_by_kind(config, model);
  read_rotary_by_layer(config, 10'000, model);
  const double scalar =
      config.with(Nulls::kAbsent).positive({"query_pre_attn_scalar"}, static_cast<double>(model.head_dim));
  if (scalar != static_cast<double>(model.head_dim)) model.score_factor = 1 / std::sqrt(scalar);
  model.intermediate_size = config.integer({"intermediate_size"});
  read_step_experts(config, model);
  return model;
}

ModelConfig read_step3p7_config(const ConfigReader& config) {
  return read_wrapped_config(config, {"step3p5"}, TiedBy::kBoth, read_step3p5_config);
}

ParameterManifest describe_step3p5(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_published_experts(kStepExperts);
  manifest.set_experts_by_projection();
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  for (int layer = 0; layer < config.layer_count(); ++layer) {
    const auto name = [&](std::string_view tensor) { return layer_tensor_name(layer, tensor); };
    publish_as(name("self_attn.g_proj.weight"), {name(blocks::attention::kGateProj)}, manifest);
    if (!config.has_experts(layer)) continue;
    for (const char* projection : {"gate_proj", "up_proj", "down_proj"})
      publish_as(name(fmt::format("share_expert.{}.weight", projection)),
                 {name(fmt::format("mlp.shared_experts.{}.weight", projection))}, manifest,
                 JoinedIn::kCheckpoints);
  }
  return manifest;
}

ParameterManifest describe_step3p7(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_step3p5(config, dtype);
  manifest.add_foreign_part(ForeignPart::kVisionTower);
  manifest.set_published_prefix("model.language_model.");
  manifest.set_renamed_prefix("model.");
  return manifest;
}

}  // namespace sluice
