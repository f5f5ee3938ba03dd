#include "model/families/qwen2_moe.hpp"

#include "model/common_config.hpp"

namespace sluice {

ModelConfig read_qwen2_moe_config(const ConfigReader& config) {
  ModelConfig model = read_common_config(config, {.key_value_heads = 16});
  refuse_windows(config, {}, model);
  model.attention_bias = config.boolean({"qkv_bias"}, true);
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  model.shared_expert_intermediate_size = config.integer({"shared_expert_intermediate_size"});
  model.shared_expert_gate = true;
  model.router.normalize = config.boolean({"norm_topk_prob"}, false);
  read_sparse_layers(config, model);
  return model;
}

}  // namespace sluice
