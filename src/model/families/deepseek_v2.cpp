#include "model/families/deepseek_v2.hpp"

#include "model/latent_config.hpp"

#include <string>

namespace sluice {
namespace {

/// norm_topk_prob is not read, as in transformers: weights are the scores times the scale.
/// DeepseekV2TopkRouter gives the scores of groups that are not chosen as 0, which no score of a softmax is
/// below, so that leaving them out chooses the same weights.
void read_router(const ConfigReader& config, ModelConfig& model) {
  expect_text(config, "scoring_func", "softmax");
  model.router.scores_per_group = 1;
  model.router.knows_balancing_loss = false;
  model.router.scale = config.positive({"routed_scaling_factor"}, 1.0);
  const std::string method = config.text({"topk_method"}, "greedy");
  if (method == "group_limited_greedy")
    read_expert_groups(config, {}, {}, model);
  else if (method != "greedy")
    config.refuse("topk_method", "'greedy' or 'group_limited_greedy'");
}

}  // namespace

ModelConfig read_deepseek_v2_config(const ConfigReader& config) {
  ModelConfig model = read_latent_config(config, {.null_key_value_heads = true});
  if (!model.rotary.interleaved) config.refuse("rope_interleave", "true");
  if (config.boolean({"mlp_bias"}, false)) config.refuse("mlp_bias", "false");
  if (config.with(Nulls::kAbsent).integer({"moe_layer_freq"}, 1) != 1) config.refuse("moe_layer_freq", "1");
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  read_shared_experts(config, 2, model);
  model.experts_before_router = true;
  read_router(config, model);
  read_first_dense_layers(config, 0, model);
  return model;
}

}  // namespace sluice
