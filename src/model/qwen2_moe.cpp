#include "model/qwen2_moe.hpp"

#include "model/common_config.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace sluice {

ModelConfig read_qwen2_moe_config(const ConfigReader& config) {
  ModelConfig model = read_common_config(config, {.key_value_heads = 16});
  const std::vector<std::string> types = config.texts({"layer_types"});
  if (std::ranges::any_of(types, [](const std::string& type) { return type != "full_attention"; }))
    config.refuse("layer_types", "'full_attention' for each layer");
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
