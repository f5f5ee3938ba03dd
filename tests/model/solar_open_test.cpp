#include "model/families/solar_open.hpp"

#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of Solar Open 100B as transformers' class has it by default, with changes: keys set to null are
/// taken away.
ModelDescription solar_open(const json& changes = json::object()) {
  json config = published_config("Solar-Open-100B");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

TEST(SolarOpen, every_layer_is_a_mixture_with_a_shared_expert_and_attention_has_no_norms) {
  const ModelDescription model = solar_open({{"n_shared_experts", 2}});
  EXPECT_EQ(model.config.moe_layer_count(), 48);
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.shared_experts.up_proj.weight"), (Shape{2 * 1280, 4096}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.gate.e_score_correction_bias"), (Shape{128}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_norm.weight"), (Shape{-1}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_proj.weight"), (Shape{64 * 128, 4096}));
}

TEST(SolarOpen, biases_of_attention_are_those_of_queries_keys_and_values) {
  const ModelDescription model = solar_open({{"attention_bias", true}});
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.k_proj.bias"), (Shape{8 * 128}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.o_proj.bias"), (Shape{-1}));
  EXPECT_EQ(shape_of(solar_open(), "model.layers.0.self_attn.k_proj.bias"), (Shape{-1}));
}

TEST(SolarOpen, absent_keys_have_transformers_defaults) {
  const ModelConfig config = solar_open({{"head_dim", nullptr},
                                         {"n_group", nullptr},
                                         {"n_shared_experts", nullptr},
                                         {"norm_topk_prob", nullptr},
                                         {"num_key_value_heads", nullptr},
                                         {"rms_norm_eps", nullptr},
                                         {"rope_parameters", nullptr},
                                         {"routed_scaling_factor", nullptr}})
                                 .config;
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.rotary.dim, 128);
  EXPECT_EQ(config.rotary.theta, 1e6);
  EXPECT_EQ(config.key_value_heads, 8);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.shared_expert_intermediate_size, 1280);
  EXPECT_EQ(config.router.groups, 1);
  EXPECT_EQ(config.router.scale, 1.0);
  EXPECT_TRUE(config.router.normalize);
}

TEST(SolarOpen, what_no_block_computes_is_refused) {
  const auto expect_refused = [](const json& changes, const std::vector<std::string>& parts) {
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(solar_open(changes)); });
  };
  expect_refused({{"scoring_func", "softmax"}}, {"scoring_func", "softmax", "'sigmoid'"});
  expect_refused({{"hidden_act", "gelu"}}, {"hidden_act", "gelu"});
  expect_refused({{"n_group", 3}}, {"n_group", "found 3", "128"});
}

}  // namespace
}  // namespace sluice
