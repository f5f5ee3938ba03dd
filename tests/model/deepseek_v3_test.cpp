#include "model/families/deepseek_v3.hpp"

#include "model/architecture.hpp"
#include "model/blocks/layer_blocks.hpp"
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

/// config.json of DeepSeek-V3 without its quantisation.
json deepseek_v3() {
  return json::parse(R"({
    "architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 0,
    "eos_token_id": 1, "ep_size": 1, "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168,
    "initializer_range": 0.02, "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
    "model_type": "deepseek_v3", "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256,
    "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128, "num_experts_per_tok": 8,
    "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                     "original_max_position_embeddings": 4096, "type": "yarn"},
    "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": false,
    "topk_group": 4, "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "use_cache": true, "v_head_dim": 128,
    "vocab_size": 129280
  })");
}

/// The same of Moonlight-16B-A3B, of Kimi-K2-Instruct and of GLM-4.7-Flash.
json moonlight() {
  json config = deepseek_v3();
  config.erase("rope_scaling");
  config.update(json{{"hidden_size", 2048},
                     {"num_hidden_layers", 27},
                     {"num_attention_heads", 16},
                     {"num_key_value_heads", 16},
                     {"intermediate_size", 11264},
                     {"moe_intermediate_size", 1408},
                     {"n_routed_experts", 64},
                     {"num_experts_per_tok", 6},
                     {"n_shared_experts", 2},
                     {"first_k_dense_replace", 1},
                     {"n_group", 1},
                     {"topk_group", 1},
                     {"routed_scaling_factor", 2.446},
                     {"q_lora_rank", nullptr},
                     {"rms_norm_eps", 1e-5},
                     {"rope_theta", 50000.0},
                     {"max_position_embeddings", 8192},
                     {"vocab_size", 163840},
                     {"num_nextn_predict_layers", 0}});
  return config;
}

json kimi_k2() {
  json config = deepseek_v3();
  config.update(json{{"model_type", "kimi_k2"},
                     {"num_attention_heads", 64},
                     {"num_key_value_heads", 64},
                     {"n_routed_experts", 384},
                     {"first_k_dense_replace", 1},
                     {"n_group", 1},
                     {"topk_group", 1},
                     {"routed_scaling_factor", 2.827},
                     {"rope_theta", 50000.0},
                     {"vocab_size", 163840},
                     {"num_nextn_predict_layers", 0}});
  return config;
}

json glm_flash() {
  json config = deepseek_v3();
  config.erase("rope_scaling");
  config.erase("first_k_dense_replace");
  config.update(json{{"model_type", "glm4_moe_lite"},
                     {"hidden_size", 2048},
                     {"num_hidden_layers", 47},
                     {"num_attention_heads", 20},
                     {"num_key_value_heads", 20},
                     {"intermediate_size", 10240},
                     {"moe_intermediate_size", 1536},
                     {"n_routed_experts", 64},
                     {"num_experts_per_tok", 4},
                     {"n_group", 1},
                     {"topk_group", 1},
                     {"routed_scaling_factor", 1.8},
                     {"q_lora_rank", 768},
                     {"qk_nope_head_dim", 192},
                     {"v_head_dim", 256},
                     {"rms_norm_eps", 1e-5},
                     {"rope_theta", 1000000},
                     {"vocab_size", 154880}});
  return config;
}

TEST(DeepseekV3, has_as_many_parameters_and_tensors_as_are_published) {
  EXPECT_EQ(published_size(described(deepseek_v3())), (PublishedSize{671'026'419'200, 45'395}));
  EXPECT_EQ(published_size(described(moonlight())), (PublishedSize{15'960'110'208, 5'317}));
  EXPECT_EQ(published_size(described(kimi_k2())), (PublishedSize{1'026'408'232'448, 69'975}));
  EXPECT_EQ(published_size(described(glm_flash())), (PublishedSize{29'943'393'920, 9'491}));
}

TEST(DeepseekV3, a_token_meets_a_part_of_them) {
  const auto billions = [](const json& config) {
    return std::round(static_cast<double>(active_parameters(described(config))) / 1e7) / 100;
  };
  EXPECT_EQ(billions(deepseek_v3()), 37.55);
  EXPECT_EQ(billions(moonlight()), 2.91);
  EXPECT_EQ(billions(kimi_k2()), 32.86);
  EXPECT_EQ(billions(glm_flash()), 3.90);
}

TEST(DeepseekV3, makes_keys_and_values_of_a_short_vector_and_a_shared_key) {
  const ModelDescription model = described(deepseek_v3());
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_b_proj.weight"), (Shape{128 * 192, 1536}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.kv_a_proj_with_mqa.weight"), (Shape{512 + 64, 7168}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.kv_b_proj.weight"), (Shape{128 * (128 + 128), 512}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.o_proj.weight"), (Shape{7168, 128 * 128}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_proj.weight"), (Shape{-1}));
  EXPECT_EQ(shape_of(model, "model.layers.2.mlp.up_proj.weight"), (Shape{18432, 7168}));
  EXPECT_EQ(shape_of(model, "model.layers.3.mlp.gate.e_score_correction_bias"), (Shape{256}));
  EXPECT_EQ(model.config.rotary.dim, 64);
  EXPECT_TRUE(model.config.rotary.interleaved);
}

TEST(DeepseekV3, a_query_rank_of_null_is_a_plain_projection) {
  const ModelDescription model = described(moonlight());
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_proj.weight"), (Shape{16 * 192, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_a_proj.weight"), (Shape{-1}));
}

TEST(DeepseekV3, scores_grow_with_the_length_that_yarn_added) {
  const double grown = 0.1 * std::log(40.0) + 1;
  EXPECT_DOUBLE_EQ(described(deepseek_v3()).config.latent_attention.score_factor, grown * grown);
  EXPECT_EQ(described(deepseek_v3()).config.rotary.magnitude, 1);
  EXPECT_EQ(described(moonlight()).config.latent_attention.score_factor, 1);
}

TEST(DeepseekV3, remembers_the_short_vector_and_the_shared_key_of_a_token) {
  const ModelConfig config = described(deepseek_v3()).config;
  const BlockCache cache = block_of(AttentionKind::kLatent).cache(config, 2);
  EXPECT_EQ(cache.position_bytes, 2 * (512 + 64));
  EXPECT_EQ(cache.sequence_bytes, 0);
}

TEST(DeepseekV3, absent_keys_have_transformers_defaults) {
  json config = deepseek_v3();
  for (const char* key : {"n_group", "topk_group", "routed_scaling_factor", "norm_topk_prob",
                          "first_k_dense_replace", "n_shared_experts", "num_key_value_heads", "rope_scaling"})
    config.erase(key);
  const ModelConfig read = described(config).config;
  EXPECT_EQ(read.router.groups, 8);
  EXPECT_EQ(read.router.chosen_groups, 4);
  EXPECT_EQ(read.router.scale, 2.5);
  EXPECT_TRUE(read.router.normalize);
  EXPECT_EQ(read.moe_layer_count(), 58);
  EXPECT_EQ(read.shared_expert_intermediate_size, 2048);
}

TEST(DeepseekV3, what_no_block_computes_is_refused) {
  const auto expect_refused = [](const char* key, const json& value, const std::vector<std::string>& parts) {
    json config = deepseek_v3();
    config[key] = value;
    test::expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(described(config)); });
  };
  expect_refused("num_key_value_heads", 64, {"num_key_value_heads", "64", "128"});
  expect_refused("head_dim", 128, {"head_dim", "128", "64"});
  expect_refused("scoring_func", "softmax", {"scoring_func", "softmax", "'sigmoid'"});
  expect_refused("topk_method", "greedy", {"topk_method", "greedy"});
  expect_refused("moe_layer_freq", 2, {"moe_layer_freq", "2"});
  expect_refused("kv_lora_rank", nullptr, {"kv_lora_rank"});
}

}  // namespace
}  // namespace sluice
