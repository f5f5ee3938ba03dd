#include "model/families/mixtral.hpp"

#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"

#include <algorithm>

namespace sluice {

ModelConfig read_mixtral_config(const ConfigReader& config) {
  ModelConfig model = read_common_config(
      config, {.key_value_heads = 8, .null_head_dim = true, .rms_norm_eps = 1e-5, .rope_theta = 1e6});
  if (config.has("sliding_window")) config.refuse("sliding_window", "null: every token sees all before it");
  if (config.number({"router_jitter_noise"}, 0.0) != 0.0) config.refuse("router_jitter_noise", "0");
  read_expert_config(config, "intermediate_size", model);
  model.router.normalize = true;
  std::ranges::fill(model.layers, MlpKind::kMoe);
  return model;
}

ParameterManifest describe_mixtral(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_published_experts(kMixtralExperts);
  return manifest;
}

}  // namespace sluice
