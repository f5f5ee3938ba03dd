#include "model/families/dots1.hpp"

#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of dots.llm1, with changes: keys set to null are taken away.
ModelDescription dots1(const json& changes = json::object()) {
  json config = published_config("dots.llm1");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

TEST(Dots1, has_norms_of_each_head_and_dense_layers_before_experts_with_shared_ones) {
  const ModelDescription model = dots1();
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_norm.weight"), (Shape{128}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_proj.bias"), (Shape{-1}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.up_proj.weight"), (Shape{10944, 4096}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.gate.e_score_correction_bias"), (Shape{128}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.shared_experts.up_proj.weight"), (Shape{2 * 1408, 4096}));
  EXPECT_EQ(model.config.moe_layer_count(), 61);
}

TEST(Dots1, absent_keys_have_transformers_defaults) {
  const ModelConfig config = dots1({{"norm_topk_prob", nullptr},
                                    {"first_k_dense_replace", nullptr},
                                    {"routed_scaling_factor", nullptr},
                                    {"rms_norm_eps", nullptr},
                                    {"rope_theta", nullptr},
                                    {"max_window_layers", nullptr},
                                    {"num_key_value_heads", nullptr}})
                                 .config;
  EXPECT_FALSE(config.router.normalize);
  EXPECT_EQ(config.moe_layer_count(), 62);
  EXPECT_EQ(config.router.scale, 1.0);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rotary.theta, 10000);
  EXPECT_EQ(config.key_value_heads, 32);
}

TEST(Dots1, what_no_block_computes_is_refused) {
  const auto expect_refused = [](const json& changes, const std::vector<std::string>& parts) {
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(dots1(changes)); });
  };
  expect_refused({{"attention_bias", true}}, {"attention_bias", "true"});
  expect_refused({{"scoring_func", "softmax"}}, {"scoring_func", "softmax", "'sigmoid'"});
  expect_refused({{"n_shared_experts", nullptr}}, {"n_shared_experts"});
  expect_refused({{"layer_types", {"full_attention", "sliding_attention"}}}, {"layer_types"});
}

TEST(Dots1, windows_of_the_last_layers_are_refused_where_they_apply) {
  const json windows{{"sliding_window", 4096}, {"max_window_layers", 61}};
  expect_error(ExitCode::kBadData, {"max_window_layers", "61", "62"},
               [&] { static_cast<void>(dots1(windows)); });
  EXPECT_EQ(dots1({{"sliding_window", 4096}, {"max_window_layers", 62}}).config.layer_count(), 62);
  EXPECT_EQ(dots1({{"max_window_layers", 10}}).config.layer_count(), 62);
}

}  // namespace
}  // namespace sluice
