#include "model/families/glm4_moe.hpp"

#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"

namespace sluice {
ModelConfig read_glm4_moe_config(const ConfigReader& config) {
  ModelConfig model = read_common_config(config, {.key_value_heads = 8,
                                                  .partial_rotary_factor = 0.5,
                                                  .takes_attention_bias = true,
                                                  .rms_norm_eps = 1e-5});
  if (config.boolean({"use_qk_norm"}, false)) model.query_key_norm = QueryKeyNorm::kPerHead;
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  read_shared_experts(config, 1, model);
  model.experts_before_router = true;
  read_sigmoid_router(config, {.normalize = true}, model);
  read_first_dense_layers(config, 1, model);
  model.prediction_layers = read_prediction_layers(config, "num_nextn_predict_layers",
                                                   config.integer({"num_mtp_layers"}, 1, 0, 1024));
  return model;
}

ParameterManifest describe_glm4_moe(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  return manifest;
}

}  // namespace sluice
