#include "model/families/olmoe.hpp"

#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using namespace test;

ModelDescription olmoe_of(const json& config) {
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

/// config.json of OLMoE-1B-7B-0924, with changes: keys set to null are taken away.
json olmoe_config(const json& changes = json::object()) {
  json config = published_config("OLMoE-1B-7B");
  config.merge_patch(changes);
  return config;
}

ModelDescription olmoe(const json& changes = json::object()) { return olmoe_of(olmoe_config(changes)); }

TEST(Olmoe, norms_span_all_heads_of_queries_and_of_keys) {
  const ModelDescription model = olmoe({{"num_key_value_heads", 4}});
  EXPECT_EQ(model.config.query_key_norm, QueryKeyNorm::kWholeProjection);
  EXPECT_EQ(shape_of(model, "model.layers.15.self_attn.q_norm.weight"), (Shape{2048}));
  EXPECT_EQ(shape_of(model, "model.layers.15.self_attn.k_norm.weight"), (Shape{512}));
}

TEST(Olmoe, has_experts_in_every_layer) {
  const ModelDescription model = olmoe();
  EXPECT_EQ(model.config.moe_layer_count(), 16);
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.experts.gate_up_proj"), (Shape{64, 2 * 1024, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.gate.weight"), (Shape{64, 2048}));
}

TEST(Olmoe, absent_keys_have_transformers_defaults) {
  const ModelConfig config =
      olmoe({{"rms_norm_eps", nullptr}, {"norm_topk_prob", nullptr}, {"num_key_value_heads", nullptr}})
          .config;
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.key_value_heads, 16);
  EXPECT_FALSE(config.router.normalize);
  EXPECT_TRUE(olmoe({{"norm_topk_prob", true}}).config.router.normalize);
}

TEST(Olmoe, the_padding_token_is_1_unless_null_says_there_is_none) {
  json config = olmoe_config({{"pad_token_id", nullptr}});
  EXPECT_EQ(olmoe_of(config).config.padding_token, 1);
  config["pad_token_id"] = nullptr;
  EXPECT_EQ(olmoe_of(config).config.padding_token, -1);
  EXPECT_EQ(olmoe({{"pad_token_id", 7}}).config.padding_token, 7);
}

TEST(Olmoe, null_key_value_heads_are_one_for_each_head) {
  json config = olmoe_config();
  config["num_key_value_heads"] = nullptr;
  EXPECT_EQ(olmoe_of(config).config.key_value_heads, 16);
}

TEST(Olmoe, what_would_be_computed_wrongly_is_refused) {
  const auto expect_refused = [](const json& changes, const std::vector<std::string>& parts) {
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(olmoe(changes)); });
  };
  expect_refused({{"clip_qkv", 8.0}}, {"clip_qkv", "found 8", "null"});
  expect_refused({{"head_dim", 64}}, {"head_dim", "found 64", "hidden_size = 2048"});
  expect_refused({{"num_attention_heads", 20}, {"num_key_value_heads", 20}},
                 {"num_attention_heads", "found 20", "hidden_size = 2048"});
  expect_refused({{"pad_token_id", nullptr}, {"vocab_size", 1}},
                 {"pad_token_id", "found nothing", "vocab_size = 1; the default is 1"});
}

}  // namespace
}  // namespace sluice
