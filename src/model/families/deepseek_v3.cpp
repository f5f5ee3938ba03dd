#include "model/families/deepseek_v3.hpp"

#include "model/latent_config.hpp"
#include "model/manifest_builder.hpp"

namespace sluice {

ModelConfig read_deepseek_v3_config(const ConfigReader& config) {
  ModelConfig model = read_latent_config(config, {});
  if (config.integer({"moe_layer_freq"}, 1) != 1) config.refuse("moe_layer_freq", "1");
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  read_shared_experts(config, 1, model);
  model.experts_before_router = true;
  read_sigmoid_router(config, {.normalize = true, .groups = 8, .chosen_groups = 4, .scale = 2.5}, model);
  read_first_dense_layers(config, 3, model);
  model.prediction_layers = config.integer({"num_nextn_predict_layers", "num_mtp_layers"}, 1, 0, 1024);
  return model;
}

ParameterManifest describe_deepseek_v3(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  return manifest;
}

}  // namespace sluice
