#include "model/families/glm4_moe.hpp"

#include "manifest/key_map.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of GLM-4.5-Air, with changes: keys set to null are taken away.
json air(const json& changes = json::object()) {
  json config = published_config("GLM-4.5-Air");
  config.merge_patch(changes);
  return config;
}

/// Of GLM-4.5 and 4.6.
json large() { return published_config("GLM-4.5"); }

TEST(Glm4Moe, correction_biases_are_float32_buffers_and_no_parameters) {
  const ModelDescription model = described(air());
  const TensorInfo& bias =
      model.manifest[*model.manifest.find("model.layers.1.mlp.gate.e_score_correction_bias")];
  EXPECT_EQ(bias.shape, (Shape{128}));
  EXPECT_EQ(bias.dtype, DType::kFloat32);
  EXPECT_EQ(bias.kind, TensorKind::kPersistentBuffer);
  EXPECT_EQ(model.manifest.parameter_count(), 106'852'245'504);  // transformers' count
}

TEST(Glm4Moe, has_dense_layers_first_and_shared_experts_as_one_in_the_others) {
  const ModelDescription model = described(air({{"first_k_dense_replace", 3}, {"n_shared_experts", 2}}));
  EXPECT_EQ(model.config.moe_layer_count(), 43);
  EXPECT_EQ(shape_of(model, "model.layers.2.mlp.down_proj.weight"), (Shape{4096, 10944}));
  EXPECT_EQ(shape_of(model, "model.layers.3.mlp.shared_experts.up_proj.weight"), (Shape{2 * 1408, 4096}));
  EXPECT_EQ(shape_of(model, "model.layers.3.mlp.shared_expert_gate.weight"), (Shape{-1}));
}

TEST(Glm4Moe, half_of_each_head_turns_and_queries_keys_and_values_have_biases) {
  const ModelDescription model = described(air());
  EXPECT_EQ(model.config.rotary.dim, 64);
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_proj.bias"), (Shape{96 * 128}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.v_proj.bias"), (Shape{8 * 128}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.o_proj.bias"), (Shape{-1}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_norm.weight"), (Shape{-1}));
  EXPECT_EQ(shape_of(described(large()), "model.layers.0.self_attn.q_norm.weight"), (Shape{128}));
}

TEST(Glm4Moe, layers_for_multi_token_prediction_are_named_and_no_others_passed_over) {
  const ModelDescription model = described(air());
  const KeyMap keys(model.manifest);
  for (const char* name : {"model.layers.46.eh_proj.weight", "model.layers.46.mlp.experts.0.up_proj.weight",
                           "model.layers.46.mlp.gate.e_score_correction_bias"}) {
    const auto key = keys.resolve(name);
    ASSERT_TRUE(std::holds_alternative<IgnoredKey>(key)) << name;
    EXPECT_EQ(std::get<IgnoredKey>(key).reason, "multi-token prediction");
    EXPECT_FALSE(std::get<IgnoredKey>(key).redundant);
  }
  EXPECT_TRUE(std::holds_alternative<UnknownKey>(keys.resolve("model.layers.47.eh_proj.weight")));
  EXPECT_TRUE(std::holds_alternative<UnknownKey>(keys.resolve("model.layers.45.eh_proj.weight")));
  const ModelDescription without = described(air({{"num_nextn_predict_layers", 0}}));
  EXPECT_TRUE(
      std::holds_alternative<UnknownKey>(KeyMap(without.manifest).resolve("model.layers.46.enorm.weight")));
}

TEST(Glm4Moe, absent_keys_have_transformers_defaults) {
  const ModelConfig config = described(air({{"rms_norm_eps", nullptr},
                                            {"norm_topk_prob", nullptr},
                                            {"partial_rotary_factor", nullptr},
                                            {"attention_bias", nullptr},
                                            {"first_k_dense_replace", nullptr},
                                            {"n_shared_experts", nullptr},
                                            {"routed_scaling_factor", nullptr},
                                            {"n_group", nullptr},
                                            {"use_qk_norm", nullptr},
                                            {"num_nextn_predict_layers", nullptr},
                                            {"num_key_value_heads", nullptr}}))
                                 .config;
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rotary.dim, 64);
  EXPECT_EQ(config.key_value_heads, 8);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_EQ(config.query_key_norm, QueryKeyNorm::kNone);
  EXPECT_EQ(config.moe_layer_count(), 45);
  EXPECT_EQ(config.shared_expert_intermediate_size, 1408);
  EXPECT_TRUE(config.router.normalize);
  EXPECT_EQ(config.router.scale, 1.0);
  EXPECT_EQ(config.router.groups, 1);
  EXPECT_EQ(config.prediction_layers, 1);
}

TEST(Glm4Moe, what_would_be_computed_wrongly_is_refused) {
  const auto expect_refused = [](const json& changes, const std::vector<std::string>& parts) {
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(described(air(changes))); });
  };
  expect_refused({{"scoring_func", "softmax"}}, {"scoring_func", "softmax", "'sigmoid'"});
  expect_refused({{"topk_method", "greedy"}}, {"topk_method", "greedy", "'noaux_tc'"});
  expect_refused({{"n_group", 3}}, {"n_group", "found 3", "128"});
  expect_refused({{"n_group", 128}}, {"n_group", "found 128", "two in each"});
  expect_refused({{"n_group", 4}, {"topk_group", 5}}, {"topk_group", "found 5", "n_group = 4"});
  expect_refused({{"n_group", 32}, {"topk_group", 1}}, {"topk_group", "found 1", "num_experts_per_tok = 8"});
  expect_refused({{"num_key_value_heads", 7}}, {"num_key_value_heads", "found 7"});
}

}  // namespace
}  // namespace sluice
