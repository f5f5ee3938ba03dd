#include "model/families/mellum.hpp"

#include "manifest/key_map.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of Mellum 2 with changes: keys set to null are taken away.
ModelDescription mellum(const json& changes = json::object()) {
  json config = published_config("Mellum2-12B-A2.5B");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

void expect_mellum_refused(const json& changes, const std::vector<std::string>& parts) {
  SCOPED_TRACE(changes.dump());
  expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(mellum(changes)); });
}

TEST(Mellum, three_of_four_layers_have_a_window_and_each_kind_its_rotary_embedding) {
  const ModelConfig config = mellum({{"rope_parameters",
                                      {{"full_attention",
                                        {{"rope_type", "yarn"},
                                         {"rope_theta", 5e5},
                                         {"factor", 16.0},
                                         {"original_max_position_embeddings", 8192}}}}}})
                                 .config;
  EXPECT_EQ(block_kinds(config), "SSSFSSSFSSSFSSSFSSSFSSSFSSSF");
  EXPECT_EQ(config.sliding_window, 1024);
  EXPECT_EQ(config.rotary_of(AttentionKind::kFull).scaling, RotaryScaling::kYarn);
  EXPECT_EQ(config.rotary_of(AttentionKind::kFull).theta, 5e5);
  EXPECT_EQ(config.rotary_of(AttentionKind::kFull).factor, 16);
  EXPECT_EQ(config.rotary_of(AttentionKind::kSliding).scaling, RotaryScaling::kNone);
  EXPECT_EQ(config.rotary_of(AttentionKind::kSliding).theta, 1e4);
}

TEST(Mellum, both_kinds_have_a_table_named_as_in_transformers) {
  const ModelDescription model = mellum();
  EXPECT_EQ(shape_of(model, "model.rotary_emb.full_attention_inv_freq"), (Shape{64}));
  EXPECT_EQ(shape_of(model, "model.rotary_emb.sliding_attention_original_inv_freq"), (Shape{64}));
  EXPECT_EQ(shape_of(model, "model.rotary_emb.inv_freq"), (Shape{-1}));
}

TEST(Mellum, biases_are_those_of_all_projections_of_attention) {
  const ModelDescription model = mellum({{"attention_bias", true}});
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.k_proj.bias"), (Shape{4 * 128}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.o_proj.bias"), (Shape{2304}));
  EXPECT_EQ(shape_of(mellum(), "model.layers.0.self_attn.o_proj.bias"), (Shape{-1}));
}

TEST(Mellum, absent_keys_have_transformers_defaults) {
  const ModelConfig config = mellum({{"head_dim", nullptr},
                                     {"layer_types", nullptr},
                                     {"mlp_layer_types", nullptr},
                                     {"norm_topk_prob", nullptr},
                                     {"num_key_value_heads", nullptr},
                                     {"rope_parameters", nullptr},
                                     {"sliding_window", nullptr}})
                                 .config;
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.key_value_heads, 4);
  EXPECT_EQ(block_kinds(config), std::string(28, 'F'));
  EXPECT_EQ(config.moe_layer_count(), 28);
  EXPECT_TRUE(config.router.normalize);
  EXPECT_EQ(config.rotary.theta, 5e5);
  EXPECT_FALSE(config.sliding_rotary.has_value());
  EXPECT_EQ(mellum({{"sliding_window", nullptr}}).config.sliding_window, 1024);
}

TEST(Mellum, layers_for_multi_token_prediction_are_carried_along) {
  const ModelDescription model = mellum();
  const auto key = KeyMap(model.manifest).resolve("mtp.layers.0.self_attn.q_proj.weight");
  ASSERT_TRUE(std::holds_alternative<IgnoredKey>(key));
  EXPECT_EQ(std::get<IgnoredKey>(key).part, ForeignPart::kMultiTokenPrediction);
}

TEST(Mellum, what_no_block_computes_is_refused) {
  expect_mellum_refused({{"layer_types", json(std::vector<std::string>(28, "chunked_attention"))}},
                        {"layer_types", "'sliding_attention' or 'full_attention'"});
  expect_mellum_refused({{"layer_types", json(std::vector<std::string>(29, "full_attention"))}},
                        {"layer_types", "num_hidden_layers = 28"});
  expect_mellum_refused({{"mlp_layer_types", json(std::vector<std::string>(28, "moe"))}},
                        {"mlp_layer_types"});
  expect_mellum_refused({{"rope_parameters", {{"full_attention", nullptr}}}},
                        {"rope_parameters", "full_attention"});
  expect_mellum_refused({{"rope_parameters", {{"sliding_attention", {{"rope_theta", nullptr}}}}}},
                        {"rope_parameters: sliding_attention", "rope_theta"});
  expect_mellum_refused({{"rope_parameters", {{"sliding_attention", {{"partial_rotary_factor", 0.5}}}}}},
                        {"sliding_attention", "partial_rotary_factor", "0.5"});
  expect_mellum_refused({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}}},
                        {"rope_scaling", "linear"});
  expect_mellum_refused({{"rope_parameters", {{"rope_theta", 1e4}}}},
                        {"rope_parameters", "rope_theta", "alone"});
  json config = published_config("Mellum2-12B-A2.5B");
  config["sliding_window"] = nullptr;
  expect_error(ExitCode::kBadData, {"sliding_window", "null"}, [&] {
    static_cast<void>(describe_model_text(config.dump(), "config.json", DType::kBFloat16));
  });
}

}  // namespace
}  // namespace sluice
