#include "model/families/solar_open.hpp"

#include "model/common_config.hpp"

#include <algorithm>

namespace sluice {

ModelConfig read_solar_open_config(const ConfigReader& config) {
  ModelConfig model = read_common_config(config, {.key_value_heads = 8,
                                                  .head_dim = 128,
                                                  .takes_attention_bias = true,
                                                  .rms_norm_eps = 1e-5,
                                                  .rope_theta = 1e6});
  read_expert_config(config, "moe_intermediate_size", model);
  read_shared_experts(config, 1, model);
  model.experts_before_router = true;
  read_sigmoid_router(config, {.normalize = true}, model);
  std::ranges::fill(model.layers, MlpKind::kMoe);
  return model;
}

}  // namespace sluice
