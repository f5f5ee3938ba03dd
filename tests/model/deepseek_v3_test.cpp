#include "model/families/deepseek_v3.hpp"

#include "model/blocks/layer_blocks.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using namespace test;

json deepseek_v3() { return published_config("DeepSeek-V3"); }
json moonlight() { return published_config("Moonlight-16B-A3B"); }

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
  EXPECT_EQ(read.moe_layer(0), 3);
  EXPECT_EQ(read.moe_layer(57), 60);
  EXPECT_EQ(read.shared_expert_intermediate_size, 2048);
}

TEST(DeepseekV3, an_indexer_is_not_the_models_and_says_up_to_which_length_attention_is_full) {
  json config = deepseek_v3();
  config.update(json{{"model_type", "deepseek_v32"}, {"index_topk", 1024}, {"index_n_heads", 64}});
  const ModelDescription model = described(config);
  EXPECT_EQ(model.config.sequence_limit.tokens, 1024);
  EXPECT_EQ(model.manifest.structure_hash(), described(deepseek_v3()).manifest.structure_hash());
  const char* const name = "model.layers.0.self_attn.indexer.wk.weight";
  EXPECT_TRUE(std::holds_alternative<IgnoredKey>(KeyMap(model.manifest).resolve(name)));
  EXPECT_TRUE(std::holds_alternative<UnknownKey>(KeyMap(described(deepseek_v3()).manifest).resolve(name)));
  config.erase("index_topk");
  config["model_type"] = "glm_moe_dsa";
  config.erase("rms_norm_eps");
  EXPECT_EQ(described(config).config.sequence_limit.tokens, 2048);
  EXPECT_EQ(described(config).config.rms_norm_eps, 1e-5);
}

TEST(DeepseekV3, kimi_k25_is_published_beside_a_vision_tower_and_tied_as_its_text_model_says) {
  const json wrapped{{"model_type", "kimi_k25"},
                     {"text_config", published_config("Kimi-K2")},
                     {"tie_word_embeddings", true}};
  const ModelDescription model = described(wrapped);
  EXPECT_EQ(published_size(model), (PublishedSize{1'026'408'232'448, 69'975}));
  EXPECT_FALSE(model.config.tie_word_embeddings);
  const std::vector<PublishedTensor> published = KeyMap(model.manifest).published(ExpertLayout::kPerExpert);
  EXPECT_EQ(published.front().name, "language_model.model.embed_tokens.weight");
  EXPECT_EQ(published.back().name, "language_model.lm_head.weight");
  json other = wrapped;
  other["text_config"]["model_type"] = "qwen3";
  expect_error(ExitCode::kBadData, {"text_config", "model_type", "qwen3", "'kimi_k2' or 'deepseek_v3'"},
               [&] { static_cast<void>(described(other)); });
}

TEST(DeepseekV3, what_no_block_computes_is_refused) {
  const auto expect_refused = [](const char* key, const json& value, const std::vector<std::string>& parts) {
    json config = deepseek_v3();
    config[key] = value;
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(described(config)); });
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
