#include "model/families/deepseek_v2.hpp"

#include "model/architecture.hpp"
#include "model/blocks/router.hpp"
#include "model/described.hpp"
#include "model/published_size.hpp"
#include "model/shape_of.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace sluice {
namespace {

using nlohmann::json;
using test::described;
using test::published_size;
using test::PublishedSize;
using test::Shape;
using test::shape_of;

/// config.json of DeepSeek-V2-Lite.
json deepseek_v2_lite() {
  return json::parse(R"({
    "architectures": ["DeepseekV2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "aux_loss_alpha": 0.001,
    "bos_token_id": 100000, "eos_token_id": 100001, "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 2048,
    "initializer_range": 0.02, "intermediate_size": 10944, "kv_lora_rank": 512, "max_position_embeddings": 163840,
    "model_type": "deepseek_v2", "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 64,
    "n_shared_experts": 2, "norm_topk_prob": false, "num_attention_heads": 16, "num_experts_per_tok": 6,
    "num_hidden_layers": 27, "num_key_value_heads": 16, "pretraining_tp": 1, "q_lora_rank": null, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
                     "original_max_position_embeddings": 4096, "type": "yarn"},
    "rope_theta": 10000, "routed_scaling_factor": 1.0, "scoring_func": "softmax", "seq_aux": true,
    "tie_word_embeddings": false, "topk_group": 1, "topk_method": "greedy", "torch_dtype": "bfloat16", "use_cache": true,
    "v_head_dim": 128, "vocab_size": 102400
  })");
}

/// The same of DeepSeek-V2.
json deepseek_v2() {
  json config = deepseek_v2_lite();
  config.update(json{{"hidden_size", 5120},
                     {"intermediate_size", 12288},
                     {"moe_intermediate_size", 1536},
                     {"n_group", 8},
                     {"n_routed_experts", 160},
                     {"num_attention_heads", 128},
                     {"num_hidden_layers", 60},
                     {"num_key_value_heads", 128},
                     {"q_lora_rank", 1536},
                     {"routed_scaling_factor", 16.0},
                     {"topk_group", 3},
                     {"topk_method", "group_limited_greedy"}});
  return config;
}

json without(json config, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) config.erase(key);
  return config;
}

TEST(DeepseekV2, has_as_many_parameters_and_tensors_as_are_published) {
  EXPECT_EQ(published_size(described(deepseek_v2_lite())), (PublishedSize{15'706'484'224, 5'291}));
  EXPECT_EQ(published_size(described(deepseek_v2())), (PublishedSize{235'741'434'880, 29'102}));
}

TEST(DeepseekV2, a_token_meets_a_part_of_them) {
  const auto billions = [](const json& config) {
    return std::round(static_cast<double>(active_parameters(described(config))) / 1e7) / 100;
  };
  EXPECT_EQ(billions(deepseek_v2_lite()), 2.66);
  EXPECT_EQ(billions(deepseek_v2()), 21.38);
}

TEST(DeepseekV2, chooses_by_a_softmax_without_a_correction_bias) {
  const ModelDescription model = described(deepseek_v2());
  EXPECT_EQ(model.config.router,
            (RouterConfig{.groups = 8, .chosen_groups = 3, .scores_per_group = 1, .scale = 16}));
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
  EXPECT_EQ(read.router, (RouterConfig{.scores_per_group = 1}));
}

TEST(DeepseekV2, what_no_block_computes_is_refused) {
  const auto expect_refused = [](const char* key, const json& value, const std::vector<std::string>& parts) {
    json config = deepseek_v2();
    config[key] = value;
    test::expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(described(config)); });
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
