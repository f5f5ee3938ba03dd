#include "model/families/glm4_moe_lite.hpp"

#include "model/latent_config.hpp"

namespace sluice {

ModelConfig read_glm4_moe_lite_config(const ConfigReader& config) {
  ModelConfig model = read_latent_config(config, {.key_value_heads = 20, .rms_norm_eps = 1e-5});
  if (config.with(Nulls::kAbsent).integer({"moe_layer_freq"}, 1) != 1) config.refuse("moe_layer_freq", "1");
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  read_shared_experts(config, 1, model);
  model.experts_before_router = true;
  read_sigmoid_router(config, {.normalize = true, .scale = 1.8}, model);
  read_first_dense_layers(config, 1, model);
  model.prediction_layers = read_prediction_layers(config, "num_nextn_predict_layers", 1);
  return model;
}

}  // namespace sluice
