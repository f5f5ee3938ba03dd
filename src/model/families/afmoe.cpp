#include "model/families/afmoe.hpp"

#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace sluice {
namespace {

void read_kinds_of_attention(const ConfigReader& config, ModelConfig& model) {
  if (!config.has("layer_types")) {
    const std::int64_t period = config.integer({"global_attn_every_n_layers"}, 4);
    for (std::int64_t layer = 0; layer < model.layer_count(); ++layer)
      if ((layer + 1) % period != 0)
        model.attention[static_cast<std::size_t>(layer)] = AttentionKind::kSliding;
  }
  constexpr std::int64_t kWindow = 1024;
  read_windows(config, kWindow, model);
  model.sliding_rotary = model.rotary;
  model.rotary.dim = 0;
}

}  // namespace

ModelConfig read_afmoe_config(const ConfigReader& config) {
  ModelConfig model = read_common_config(
      config,
      {.null_key_value_heads = true, .head_dim = 128, .takes_attention_bias = true, .rms_norm_eps = 1e-5});
  model.attention_output_bias = model.attention_bias;
  model.query_key_norm = QueryKeyNorm::kPerHead;
  model.attention_output_gate = model.separate_gate = true;
  model.branch_norms = model.unrounded_norms = true;
  if (config.boolean({"mup_enabled"}, false))
    model.embedding_factor = std::sqrt(static_cast<double>(model.hidden_size));
  read_kinds_of_attention(config, model);
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  read_shared_experts(config, 2, model);
  model.router = {.score = RouterScore::kSigmoid,
                  .has_correction_bias = true,
                  .normalize = true,
                  .epsilon = 1e-20,
                  .scale = config.positive({"route_scale"}, 1.0)};
  const std::int64_t dense = config.integer({"num_dense_layers"}, 1, 0);
  std::fill(model.layers.begin() + std::min<std::int64_t>(dense, model.layer_count()), model.layers.end(),
            MlpKind::kMoe);
  return model;
}

ParameterManifest describe_afmoe(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_published_experts(kAfmoeExperts);
  manifest.set_tree_experts(kAfmoeExperts);
  return manifest;
}

}  // namespace sluice
