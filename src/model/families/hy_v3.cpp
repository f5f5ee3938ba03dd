#include "model/families/hy_v3.hpp"

#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"

namespace sluice {

ModelConfig read_hy_v3_config(const ConfigReader& config) {
  ModelConfig model = read_common_config(config, {.key_value_heads = 8,
                                                  .head_dim = 128,
                                                  .rms_norm_eps = 1e-5,
                                                  .rope_theta = 11'158'840,
                                                  .initializer_range = 0.006});
  if (config.boolean({"mlp_bias"}, false)) config.refuse("mlp_bias", "false");
  for (const char* key : {"moe_router_enable_expert_bias", "moe_router_use_sigmoid", "qk_norm", "route_norm"})
    if (!config.with(Nulls::kAbsent).boolean({key}, true)) config.refuse(key, "true");
  model.query_key_norm = QueryKeyNorm::kPerHead;
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  // The key enable_moe_fp32_combine makes no difference: the sum of two numbers is rounded once in either
  // case.
  read_shared_experts(config, 1, model);
  model.router = {.score = RouterScore::kSigmoid,
                  .has_correction_bias = true,
                  .normalize = true,
                  .epsilon = 1e-20,
                  .scale = config.positive({"router_scaling_factor"}, 2.826)};
  read_first_dense_layers(config, 1, model);
  model.prediction_layers = read_prediction_layers(config, "num_nextn_predict_layers", 1);
  return model;
}

ParameterManifest describe_hy_v3(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_published_experts(kHy3Experts);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  return manifest;
}

}  // namespace sluice
