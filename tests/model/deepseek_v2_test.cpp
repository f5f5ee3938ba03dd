#include "model/families/deepseek_v2.hpp"

#include "model/blocks/router.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace sluice {
namespace {

using namespace test;

json deepseek_v2_lite() { return published_config("DeepSeek-V2-Lite"); }
json deepseek_v2() { return published_config("DeepSeek-V2"); }

json without(json config, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) config.erase(key);
  return config;
}

TEST(DeepseekV2, chooses_by_a_softmax_without_a_correction_bias) {
  const ModelDescription model = described(deepseek_v2());
  EXPECT_EQ(model.config.router, (RouterConfig{.groups = 8,
                                               .chosen_groups = 3,
                                               .scores_per_group = 1,
                                               .scale = 16,
                                               .knows_balancing_loss = false}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.gate.weight"), (Shape{160, 5120}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.gate.e_score_correction_bias"), (Shape{-1}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.shared_experts.up_proj.weight"), (Shape{2 * 1536, 5120}));
}

TEST(DeepseekV2, greedy_choices_know_no_groups) {
  json config = deepseek_v2_lite();
  config["n_group"] = 8;
  EXPECT_EQ(described(config).config.router.groups, 1);
}

TEST(DeepseekV2, groups_may_have_one_expert) {
  json config = deepseek_v2();
  config.update(json{{"n_group", 160}, {"topk_group", 6}});
  EXPECT_EQ(described(config).config.router.groups, 160);
}

TEST(DeepseekV2, normalised_weights_are_not_its_own_whatever_the_key_says) {
  json config = deepseek_v2_lite();
  config["norm_topk_prob"] = true;
  EXPECT_FALSE(described(config).config.router.normalize);
}

TEST(DeepseekV2, scores_grow_with_the_length_that_yarn_added) {
  const double grown = 0.1 * 0.707 * std::log(40.0) + 1;
  const ModelConfig config = described(deepseek_v2_lite()).config;
  EXPECT_DOUBLE_EQ(config.latent_attention.score_factor, grown * grown);
  EXPECT_EQ(config.rotary.magnitude, 1);
  EXPECT_TRUE(config.rotary.interleaved);
}

TEST(DeepseekV2, ranks_must_agree_on_groups_and_scale) {
  const auto of_router = [](const char* key, const json& value) {
    json config = deepseek_v2();
    config[key] = value;
    std::string text;
    for (const Setting& setting : blocks::router::settings(described(config).config))
      text += setting.value + "\n";
    return text;
  };
  EXPECT_NE(of_router("topk_group", 4), of_router("topk_group", 3));
  EXPECT_NE(of_router("n_group", 16), of_router("n_group", 8));
  EXPECT_NE(of_router("routed_scaling_factor", 1.0), of_router("routed_scaling_factor", 16.0));
}

TEST(DeepseekV2, absent_keys_have_transformers_defaults) {
  const json config = without(deepseek_v2_lite(),
                              {"first_k_dense_replace", "n_group", "n_shared_experts", "num_key_value_heads",
                               "routed_scaling_factor", "scoring_func", "topk_group", "topk_method"});
  const ModelConfig read = described(config).config;
  EXPECT_EQ(read.moe_layer_count(), 27);
  EXPECT_EQ(read.shared_expert_intermediate_size, 2 * 1408);
  EXPECT_EQ(read.router, (RouterConfig{.scores_per_group = 1, .knows_balancing_loss = false}));
}

TEST(DeepseekV2, what_no_block_computes_is_refused) {
  const auto expect_refused = [](const char* key, const json& value, const std::vector<std::string>& parts) {
    json config = deepseek_v2();
    config[key] = value;
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(described(config)); });
  };
  expect_refused("scoring_func", "sigmoid", {"scoring_func", "found \"sigmoid\"", "'softmax'"});
  expect_refused("topk_method", "noaux_tc",
                 {"topk_method", "noaux_tc", "'greedy'", "'group_limited_greedy'"});
  expect_refused("n_group", nullptr, {"n_group"});
  expect_refused("topk_group", nullptr, {"topk_group"});
  expect_refused("n_group", 7, {"n_group", "found 7", "160"});
  expect_refused("topk_group", 9, {"topk_group", "found 9", "n_group = 8"});
  expect_refused("mlp_bias", true, {"mlp_bias", "found true", "false"});
  expect_refused("moe_layer_freq", 2, {"moe_layer_freq", "found 2", "1"});
  expect_refused("rope_interleave", false, {"rope_interleave", "found false", "true"});
  expect_refused("num_key_value_heads", 64, {"num_key_value_heads", "found 64", "128"});
}

}  // namespace
}  // namespace sluice
