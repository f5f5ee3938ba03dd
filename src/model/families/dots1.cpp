#include "model/families/dots1.hpp"

#include "model/common_config.hpp"

namespace sluice {

ModelConfig read_dots1_config(const ConfigReader& config) {
  ModelConfig model = read_common_config(config, {.key_value_heads = 32, .null_key_value_heads = true});
  refuse_windows(config, 62, model);
  model.query_key_norm = QueryKeyNorm::kPerHead;
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  read_shared_experts(config, {}, model);
  model.experts_before_router = true;
  read_sigmoid_router(config, {}, model);
  read_first_dense_layers(config, 0, model);
  return model;
}

}  // namespace sluice
