#include "model/families/granitemoe.hpp"

#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"

#include <algorithm>

namespace sluice {

ModelConfig read_granite_config(const ConfigReader& config) {
  ModelConfig model = read_common_config(
      config,
      {.null_key_value_heads = true, .takes_attention_bias = true, .ignores_attention_dropout = true});
  model.attention_output_bias = model.attention_bias;
  model.embedding_factor = config.positive({"embedding_multiplier"}, 1.0);
  model.residual_factor = config.positive({"residual_multiplier"}, 1.0);
  model.score_factor = config.positive({"attention_multiplier"}, 1.0);
  model.logit_divisor = config.positive({"logits_scaling"}, 1.0);
  return model;
}

void read_granite_experts(const ConfigReader& config, ModelConfig& model) {
  read_expert_config(config, "intermediate_size", model);
  // A softmax over the logits of the chosen experts equals one over all logits, divided by the sum over the
  // chosen ones.
  model.router.normalize = true;
  std::ranges::fill(model.layers, MlpKind::kMoe);
}

ModelConfig read_granitemoe_config(const ConfigReader& config) {
  ModelConfig model = read_granite_config(config);
  read_granite_experts(config, model);
  return model;
}

ParameterManifest describe_granitemoe(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_published_experts(kGraniteExperts);
  manifest.set_tree_experts(kGraniteTree);
  manifest.set_fused_experts();
  return manifest;
}

}  // namespace sluice
