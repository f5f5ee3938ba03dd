#include "model/families/minimax_m2.hpp"

#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"
#include "model/rotary_config.hpp"

#include <algorithm>

namespace sluice {
namespace {

constexpr std::int64_t kDefaultHeadDim = 128;

void refuse_other_forms(const ConfigReader& config) {
  const ConfigReader optional = config.with(Nulls::kAbsent);
  expect_text(config, "scoring_func", "sigmoid");
  expect_text(config, "qk_norm_type", "per_layer");
  for (const char* key : {"use_qk_norm", "use_routing_bias"})
    if (!optional.boolean({key}, true)) config.refuse(key, "true");
  if (config.number({"router_jitter_noise"}, 0.0) != 0.0) config.refuse("router_jitter_noise", "0");
  if (optional.integer({"shared_intermediate_size"}, 0, 0) != 0)
    config.refuse("shared_intermediate_size", "0");
}

}  // namespace

ModelConfig read_minimax_m2_config(const ConfigReader& config) {
  ModelConfig model =
      read_common_config(config, {.key_value_heads = 8,
                                  .head_dim = kDefaultHeadDim,
                                  .partial_rotary_factor = rotary_dim_share(config, kDefaultHeadDim),
                                  .rope_theta = 5e6});
  refuse_other_forms(config);
  model.query_key_norm = QueryKeyNorm::kWholeProjection;
  read_expert_config(config, "intermediate_size", model);
  model.router = {.score = RouterScore::kSigmoid, .has_correction_bias = true, .normalize = true};
  std::ranges::fill(model.layers, MlpKind::kMoe);
  model.prediction_layers = read_prediction_layers(config, "num_mtp_modules", 0);
  return model;
}

ParameterManifest describe_minimax_m2(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_published_experts(kMixtralExperts);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  return manifest;
}

}  // namespace sluice
