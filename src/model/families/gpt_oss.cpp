#include "model/families/gpt_oss.hpp"

#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace sluice {
namespace {

/// Rotary settings of GptOssConfig, for a config.json without any.
constexpr const char* kRotary = R"({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                    "truncate": false, "original_max_position_embeddings": 4096})";

void read_clamped_experts(const ConfigReader& config, ModelConfig& model) {
  read_expert_config(config, "intermediate_size", model);
  constexpr const char* kOtherSpelling = "experts_per_token";
  if (config.with(Nulls::kAbsent).integer({kOtherSpelling}, model.experts_per_token) !=
      model.experts_per_token)
    config.refuse(kOtherSpelling, fmt::format("num_experts_per_tok = {}", model.experts_per_token));
  model.expert_bias = true;
  model.gate_up_order = GateUpOrder::kInterleaved;
  model.swiglu_limits.experts = config.positive({"swiglu_limit"}, 7.0);
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
  for (std::size_t layer = 0; layer < model.attention.size(); layer += 2)
    model.attention[layer] = AttentionKind::kSliding;
  read_windows(config, 128, model);
  read_clamped_experts(config, model);
  return model;
}

ParameterManifest describe_gpt_oss(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_transposed_experts();
  return manifest;
}

}  // namespace sluice
