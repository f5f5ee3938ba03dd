#include "model/families/mimo_v2_flash.hpp"

#include "model/blocks/attention.hpp"
#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"
#include "model/rotary_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {
namespace {

/// Reads 0 or 1 for each layer; nothing if the key is missing or null.
std::vector<std::int64_t> read_flags(const ConfigReader& config, const char* key, std::size_t layers) {
  if (!config.has(key)) return {};
  std::vector<std::int64_t> flags = config.integers({key});
  const bool fits =
      flags.size() == layers && std::ranges::all_of(flags, [](auto flag) { return flag == 0 || flag == 1; });
  if (!fits) config.refuse(key, fmt::format("0 or 1 for each of {} layers", layers));
  return flags;
}

/// Reads which layers have a window, and which have experts; by default all but each sixth and the first.
void read_kinds(const ConfigReader& config, ModelConfig& model) {
  constexpr const char *kPattern = "hybrid_layer_pattern", *kExperts = "moe_layer_freq";
  const std::size_t layers = model.layers.size();
  const std::vector<std::int64_t> windows = read_flags(config, kPattern, layers),
                                  experts = read_flags(config, kExperts, layers);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const bool is_full = windows.empty() ? layer == 0 || layer % 6 == 5 : windows[layer] == 0;
    const bool is_dense = experts.empty() ? layer == 0 : experts[layer] == 0;
    model.attention[layer] = is_full ? AttentionKind::kFull : AttentionKind::kSliding;
    model.layers[layer] = is_dense ? MlpKind::kDense : MlpKind::kMoe;
  }
  const ModelConfig told = model;
  read_layer_mixers(config, "sliding_attention", AttentionKind::kSliding, model);
  if (!windows.empty() && told.attention != model.attention) config.refuse(kPattern, "what layer_types says");
  if (config.has("mlp_layer_types")) read_first_dense_layers(config, 1, model);
  if (!experts.empty() && told.layers != model.layers) config.refuse(kExperts, "what mlp_layer_types says");
  if (windows.empty() && !config.has("layer_types") && config.has("hybrid_block_size"))
    config.refuse("hybrid_block_size", fmt::format("null, or {} beside it", kPattern));
}

/// Reads the window: sliding_window_size counts the tokens before a token, sliding_window that token too. The published
/// config.json has 128 for both; SGLang and transformers compute with the first, 129 tokens.
void read_window(const ConfigReader& config, ModelConfig& model) {
  constexpr const char *kWindow = "sliding_window", *kBefore = "sliding_window_size";
  model.sliding_window = config.integer({kWindow}, 129);
  if (!config.has(kBefore)) return;
  const std::int64_t before = config.integer({kBefore}), window = model.sliding_window;
  model.sliding_window = before + 1;
  if (config.has(kWindow) && window != before && window != before + 1)
    config.refuse(kWindow, fmt::format("{} or {}, as {} = {}", before, before + 1, kBefore, before));
}

void read_heads(const ConfigReader& config, ModelConfig& model) {
  const AttentionHeads full{.queries = model.attention_heads,
                            .keys_and_values = model.key_value_heads,
                            .size = model.head_dim,
                            .value_size = config.integer({"v_head_dim"}, 128),
                            .has_sinks = config.boolean({"add_full_attention_sink_bias"}, false)};
  const AttentionHeads sliding{
      .queries = config.integer({"swa_num_attention_heads"}, full.queries),
      .keys_and_values = config.integer({"swa_num_key_value_heads"}, 2 * full.keys_and_values),
      .size = config.integer({"swa_head_dim"}, full.size),
      .value_size = config.integer({"swa_v_head_dim"}, full.value_size),
      .has_sinks = config.boolean({"add_swa_attention_sink_bias"}, true)};
  if (sliding.size % 2 != 0) config.refuse("swa_head_dim", "an even number");
  if (sliding.queries % sliding.keys_and_values != 0)
    config.refuse("swa_num_key_value_heads",
                  fmt::format("a divisor of {} heads of queries; the default is {}", sliding.queries,
                              2 * full.keys_and_values));
  for (const AttentionKind kind : model.attention)
    model.heads_by_layer.push_back(kind == AttentionKind::kSliding ? sliding : full);
}

/// Reads the embeddings from rope_parameters, or as they are published from keys beside all others; they must agree.
void read_rotary(const ConfigReader& config, ModelConfig& model) {
  constexpr const char *kParameters = "rope_parameters", *kTheta = "rope_theta",
                       *kSlidingTheta = "swa_rope_theta";
  constexpr const char* kShare = "partial_rotary_factor";
  constexpr double kUsualShare = 0.334;
  ModelConfig beside = model;
  const double share = config.positive({kShare}, kUsualShare);
  const auto settings = [&](double theta) {
    return fmt::format(R"({{"rope_theta": {}, "partial_rotary_factor": {}}})", theta, share);
  };
  const std::string text =
      fmt::format(R"({{"full_attention": {}, "sliding_attention": {}}})",
                  settings(config.positive({kTheta}, 5e6)), settings(config.positive({kSlidingTheta}, 1e4)));
  read_rotary_of_kinds(config, ConfigReader::parse(text, config.name()), beside, kUsualShare);
  const std::optional<ConfigReader> own = config.object({kParameters});
  if (!own) return void(model = beside);
  read_rotary_of_kinds(config, *own, model, kUsualShare);
  if (model.rotary == beside.rotary && model.sliding_rotary == beside.sliding_rotary) return;
  for (const char* key : {kTheta, kSlidingTheta, kShare})
    if (config.has(key)) config.refuse(key, fmt::format("what {} says", kParameters));
}

}  // namespace

ModelConfig read_mimo_v2_flash_config(const ConfigReader& config) {
  constexpr const char *kEpsilon = "layernorm_epsilon", *kOwnEpsilon = "rms_norm_eps";
  ModelConfig model =
      read_common_config(config, {.key_value_heads = 4,
                                  .head_dim = 192,
                                  .takes_attention_bias = true,
                                  .rms_norm_eps_key = config.contains(kEpsilon) ? kEpsilon : kOwnEpsilon,
                                  .rms_norm_eps = 1e-5,
                                  .rotary_by_kind = true});
  if (config.positive({kOwnEpsilon}, model.rms_norm_eps) != model.rms_norm_eps)
    config.refuse(kOwnEpsilon, fmt::format("{} = {}", kEpsilon, model.rms_norm_eps));
  expect_text(config, "attention_projection_layout", "split");
  if (config.with(Nulls::kAbsent).integer({"n_shared_experts"}, 0, 0) != 0)
    config.refuse("n_shared_experts", "null or 0");
  constexpr const char* kFactor = "attention_value_scale";
  model.value_factor = config.is_null(kFactor) ? 1.0 : config.positive({kFactor}, 0.707);
  read_kinds(config, model);
  read_window(config, model);
  read_heads(config, model);
  read_rotary(config, model);
  model.intermediate_size = config.integer({"intermediate_size"}, 16'384);
  read_expert_config(config, "moe_intermediate_size", model);
  model.experts_before_router = true;
  read_sigmoid_router(config, {.normalize = true, .null_scale = true}, model);
  return model;
}

ParameterManifest describe_mimo_v2_flash(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  for (int layer = 0; layer < config.layer_count(); ++layer)
    if (config.of_layer(layer).attention_sinks)
      publish_as(layer_tensor_name(layer, "self_attn.attention_sink_bias"),
                 {layer_tensor_name(layer, blocks::attention::kSinks)}, manifest);
  return manifest;
}

}  // namespace sluice
