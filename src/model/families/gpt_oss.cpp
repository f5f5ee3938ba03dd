#include "model/families/gpt_oss.hpp"

#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace sluice {
namespace {

/// Rotary settings of GptOssConfig, for a config.json without any.
constexpr const char* kRotary = R"({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                    "truncate": false, "original_max_position_embeddings": 4096})";

AttentionKind kind_of(const ConfigReader& config, const std::string& type) {
  if (type == "sliding_attention") return AttentionKind::kSliding;
  if (type != "full_attention")
    config.refuse("layer_types", "'sliding_attention' or 'full_attention' for each layer");
  return AttentionKind::kFull;
}

/// Reads which layers have a window: every other one from the first on, unless the file says so.
void read_windows(const ConfigReader& config, ModelConfig& model) {
  const auto types = read_layer_kinds(config, "layer_types", model);
  for (std::size_t layer = 0; layer < model.attention.size(); ++layer) {
    const AttentionKind alternating = layer % 2 == 0 ? AttentionKind::kSliding : AttentionKind::kFull;
    model.attention[layer] = types ? kind_of(config, (*types)[layer]) : alternating;
  }
  if (std::ranges::count(model.attention, AttentionKind::kSliding) == 0) return;
  constexpr const char* kWindow = "sliding_window";
  if (config.is_null(kWindow)) config.refuse(kWindow, "an integer, as layer_types has 'sliding_attention'");
  model.sliding_window = config.integer({kWindow}, 128);
}

void read_experts(const ConfigReader& config, ModelConfig& model) {
  read_expert_config(config, "intermediate_size", model);
  constexpr const char* kOtherSpelling = "experts_per_token";
  if (config.with(Nulls::kAbsent).integer({kOtherSpelling}, model.experts_per_token) !=
      model.experts_per_token)
    config.refuse(kOtherSpelling, fmt::format("num_experts_per_tok = {}", model.experts_per_token));
  model.expert_bias = true;
  model.gate_up_order = GateUpOrder::kInterleaved;
  model.swiglu_limit = config.positive({"swiglu_limit"}, 7.0);
  model.swiglu_slope = config.positive({"swiglu_alpha"}, 1.702);
  // A softmax over the logits of the chosen experts equals one over all logits, divided by the sum over the
  // chosen ones.
  model.router = {.has_bias = true, .normalize = true};
  std::ranges::fill(model.layers, MlpKind::kMoe);
}

}  // namespace

ModelConfig read_gpt_oss_config(const ConfigReader& config) {
  ModelConfig model = read_common_config(config, {.key_value_heads = 8,
                                                  .head_dim = 64,
                                                  .takes_attention_bias = true,
                                                  .rms_norm_eps = 1e-5,
                                                  .rope_theta = 150000,
                                                  .rope_parameters = kRotary});
  model.attention_bias = model.attention_output_bias = config.boolean({"attention_bias"}, true);
  model.attention_sinks = true;
  model.unrounded_norms = true;
  read_windows(config, model);
  read_experts(config, model);
  return model;
}

ParameterManifest describe_gpt_oss(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_transposed_experts();
  return manifest;
}

}  // namespace sluice
