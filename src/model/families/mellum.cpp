#include "model/families/mellum.hpp"

#include "model/common_config.hpp"
#include "model/rotary_config.hpp"

namespace sluice {
namespace {

/// Rotary settings of MellumConfig, for a config.json without any.
constexpr const char* kRotaryByKind = R"({"full_attention": {"rope_type": "default", "rope_theta": 500000.0},
                                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})";

}  // namespace

ModelConfig read_mellum_config(const ConfigReader& config) {
  ModelConfig model = read_common_config(
      config, {.key_value_heads = 4, .head_dim = 128, .takes_attention_bias = true, .rotary_by_kind = true});
  model.query_key_norm = QueryKeyNorm::kPerHead;
  model.attention_output_bias = model.attention_bias;
  read_windows(config, 1024, model);
  read_rotary_by_kind(config, kRotaryByKind, model);
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  model.experts_before_router = true;
  model.router.normalize = config.boolean({"norm_topk_prob"}, true);
  read_first_dense_layers(config, 0, model);
  return model;
}

}  // namespace sluice
