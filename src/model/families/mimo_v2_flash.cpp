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
#include <vector>

namespace sluice {
namespace {

/// Spellings of which layers have a window, and of which have experts.
constexpr LayerSpellings kWindows{"layer_types", "full_attention", "sliding_attention",
                                  "hybrid_layer_pattern"};
constexpr LayerSpellings kMlps{"mlp_layer_types", "dense", "sparse", "moe_layer_freq"};

/// Reads which layers have a window, and which have experts; by default all but each sixth and the first.
void read_kinds(const ConfigReader& config, ModelConfig& model) {
  const std::size_t layers = model.layers.size();
  for (const char* key : {kWindows.flags, kMlps.flags})
    if (std::ranges::any_of(config.integers({key}), [](auto flag) { return flag != 0 && flag != 1; }))
      config.refuse(key, fmt::format("0 or 1 for each of {} layers", layers));
  std::vector<bool> usual_windows(layers), usual_experts(layers);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    usual_windows[layer] = layer != 0 && layer % 6 != 5;
    usual_experts[layer] = layer != 0;
  }
  const std::vector<bool> windows = read_layers_of_kind(config, config, kWindows, usual_windows, model),
                          experts = read_layers_of_kind(config, config, kMlps, usual_experts, model);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    model.attention[layer] = windows[layer] ? AttentionKind::kSliding : AttentionKind::kFull;
    model.layers[layer] = experts[layer] ? MlpKind::kMoe : MlpKind::kDense;
  }
  if (!config.has(kWindows.flags) && !config.has(kWindows.kinds) && config.has("hybrid_block_size"))
    config.refuse("hybrid_block_size", fmt::format("null, or {} beside it", kWindows.flags));
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

/// Refuses chunks of attention that are not the window in other words.
void refuse_chunks(const ConfigReader& config, std::int64_t window) {
  constexpr const char* kChunk = "attention_chunk_size";
  const std::int64_t chunk = config.with(Nulls::kAbsent).integer({kChunk}, window);
  if (chunk != window && chunk != window - 1)
    config.refuse(kChunk, fmt::format("the window, {} or {}", window - 1, window));
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

/// Reads the embeddings from rope_parameters, or as they are published from keys beside all others; those that are
/// there must agree.
void read_rotary(const ConfigReader& config, ModelConfig& model) {
  constexpr const char *kParameters = "rope_parameters", *kShare = "partial_rotary_factor";
  constexpr double kUsualShare = 0.334;
  refuse_rope_scaling(config, Nulls::kRefused);
  const std::optional<ConfigReader> own = config.object({kParameters});
  if (own) read_rotary_of_kinds(config, *own, model, kUsualShare);
  const ModelConfig told = model;
  set_rotary_of_kinds(model, [&](AttentionKind kind, std::int64_t head_dim) {
    const bool is_full = kind == AttentionKind::kFull;
    const char* const theta = is_full ? "rope_theta" : "swa_rope_theta";
    RotaryConfig rotary = own ? told.rotary_of(kind) : RotaryConfig{};
    if (!own || config.contains(theta)) rotary.theta = config.positive({theta}, is_full ? 5e6 : 1e4);
    if (!own || config.contains(kShare))
      rotary.dim = turning_entries(config, kShare, config.number({kShare}, kUsualShare), head_dim);
    if (own && rotary != told.rotary_of(kind))
      config.refuse(rotary.theta == told.rotary_of(kind).theta ? kShare : theta,
                    fmt::format("what {} says", kParameters));
    return rotary;
  });
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
  refuse_chunks(config, model.sliding_window);
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
