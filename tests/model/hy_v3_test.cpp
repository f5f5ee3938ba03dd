#include "model/families/hy_v3.hpp"

#include "manifest/key_map.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of Hy3-preview, with changes: keys set to null are taken away.
ModelDescription hy3(const json& changes = json::object()) {
  json config = published_config("Hy3");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

TEST(HyV3, has_norms_of_each_head_and_a_dense_layer_before_experts_with_shared_ones) {
  const ModelDescription model = hy3();
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.k_norm.weight"), (Shape{128}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.up_proj.weight"), (Shape{13312, 4096}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.gate.e_score_correction_bias"), (Shape{192}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.shared_experts.up_proj.weight"), (Shape{1536, 4096}));
  EXPECT_EQ(model.config.moe_layer_count(), 79);
}

TEST(HyV3, weights_of_corrected_sigmoids_are_normalised_and_scaled) {
  const RouterConfig router = hy3().config.router;
  EXPECT_EQ(router.score, RouterScore::kSigmoid);
  EXPECT_TRUE(router.has_correction_bias);
  EXPECT_TRUE(router.normalize);
  EXPECT_EQ(router.epsilon, 1e-20);
  EXPECT_EQ(router.scale, 2.826);
}

TEST(HyV3, is_published_in_its_own_spelling_and_read_in_that_of_the_module_tree_too) {
  const ModelDescription model = hy3();
  const KeyMap keys(model.manifest);
  const auto published = keys.published(ExpertLayout::kPerExpert);
  for (const std::string name :
       {"router.gate.weight", "expert_bias", "shared_mlp.down_proj.weight", "experts.191.gate_proj.weight"}) {
    const std::string whole = "model.layers.79.mlp." + name;
    EXPECT_NE(std::ranges::find(published, whole, &PublishedTensor::name), published.end()) << name;
    EXPECT_TRUE(std::holds_alternative<KeyTarget>(keys.resolve(whole))) << name;
  }
  for (const std::string name : {"gate.weight", "shared_experts.down_proj.weight"})
    EXPECT_TRUE(std::holds_alternative<KeyTarget>(keys.resolve("model.layers.79.mlp." + name))) << name;
}

TEST(HyV3, the_layer_for_multi_token_prediction_is_named) {
  const ModelDescription model = hy3();
  const KeyMap keys(model.manifest);
  for (const char* name : {"model.layers.80.eh_proj.weight", "model.layers.80.mlp.router.gate.weight"}) {
    const auto key = keys.resolve(name);
    ASSERT_TRUE(std::holds_alternative<IgnoredKey>(key)) << name;
    EXPECT_EQ(std::get<IgnoredKey>(key).part, ForeignPart::kMultiTokenPrediction);
  }
  EXPECT_TRUE(std::holds_alternative<UnknownKey>(keys.resolve("model.layers.81.eh_proj.weight")));
}

TEST(HyV3, layers_are_named_one_by_one_or_are_dense_at_first) {
  const json named{{"num_hidden_layers", 3}, {"mlp_layer_types", {"sparse", "dense", "sparse"}}};
  EXPECT_EQ(hy3(named).config.layers, (std::vector{MlpKind::kMoe, MlpKind::kDense, MlpKind::kMoe}));
  EXPECT_EQ(hy3({{"first_k_dense_replace", 3}}).config.moe_layer_count(), 77);
  EXPECT_EQ(hy3({{"first_k_dense_replace", nullptr}}).config.moe_layer_count(), 79);
}

TEST(HyV3, absent_keys_have_transformers_defaults) {
  const ModelConfig config = hy3({{"router_scaling_factor", nullptr},
                                  {"num_shared_experts", nullptr},
                                  {"num_key_value_heads", nullptr},
                                  {"head_dim", nullptr},
                                  {"initializer_range", nullptr},
                                  {"rms_norm_eps", nullptr},
                                  {"rope_parameters", nullptr}})
                                 .config;
  EXPECT_EQ(config.router.scale, 2.826);
  EXPECT_EQ(config.shared_expert_intermediate_size, 1536);
  EXPECT_EQ(config.key_value_heads, 8);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.initializer_range, 0.006);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rotary.theta, 11'158'840);
}

TEST(HyV3, what_no_block_computes_is_refused) {
  const auto expect_refused = [](const json& changes, const std::vector<std::string>& parts) {
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(hy3(changes)); });
  };
  for (const char* key : {"moe_router_enable_expert_bias", "moe_router_use_sigmoid", "qk_norm", "route_norm"})
    expect_refused({{key, false}}, {key, "false", "true"});
  for (const char* key : {"attention_bias", "mlp_bias"})
    expect_refused({{key, true}}, {key, "true", "false"});
  expect_refused({{"mlp_layer_types", {"dense"}}}, {"mlp_layer_types", "80"});
  expect_refused({{"num_hidden_layers", 2}, {"mlp_layer_types", {"dense", "odd"}}},
                 {"mlp_layer_types", "odd"});
}

}  // namespace
}  // namespace sluice
