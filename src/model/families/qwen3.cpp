#include "model/families/qwen3.hpp"

#include "model/common_config.hpp"

namespace sluice {
namespace {

/// Both families need intermediate_size, even if every layer has experts.
ModelConfig read_with_width(const ConfigReader& config, const CommonDefaults& defaults) {
  ModelConfig model = read_common_config(config, defaults);
  refuse_windows(config, {}, model);
  model.query_key_norm = QueryKeyNorm::kPerHead;
  model.intermediate_size = config.integer({"intermediate_size"});
  return model;
}

}  // namespace

ModelConfig read_qwen3_config(const ConfigReader& config) {
  return read_with_width(config, {.key_value_heads = 32, .null_key_value_heads = true, .head_dim = 128});
}

ModelConfig read_qwen3_moe_config(const ConfigReader& config) {
  ModelConfig model = read_with_width(config, {.key_value_heads = 4});
  read_expert_config(config, "moe_intermediate_size", model);
  model.experts_before_router = true;
  model.router.normalize = config.boolean({"norm_topk_prob"}, false);
  read_sparse_layers(config, model);
  return model;
}

}  // namespace sluice
