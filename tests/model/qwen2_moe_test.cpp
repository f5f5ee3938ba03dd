#include "model/families/qwen2_moe.hpp"

#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of Qwen1.5-MoE-A2.7B, with changes: keys set to null are taken away.
ModelDescription qwen2(const json& changes = json::object()) {
  json config = published_config("Qwen1.5-MoE-A2.7B");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

TEST(Qwen2Moe, queries_keys_and_values_have_biases_unless_config_json_says_otherwise) {
  EXPECT_EQ(shape_of(qwen2(), "model.layers.0.self_attn.k_proj.bias"), (Shape{2048}));
  EXPECT_EQ(shape_of(qwen2(), "model.layers.0.self_attn.o_proj.bias"), (Shape{-1}));
  EXPECT_EQ(shape_of(qwen2({{"qkv_bias", false}}), "model.layers.0.self_attn.k_proj.bias"), (Shape{-1}));
}

TEST(Qwen2Moe, has_a_gated_expert_beside_those_of_the_router) {
  const ModelDescription model = qwen2({{"mlp_only_layers", {3}}});
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.shared_expert.up_proj.weight"), (Shape{5632, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.shared_expert_gate.weight"), (Shape{1, 2048}));
  EXPECT_EQ(model.config.moe_layer_count(), 23);
  EXPECT_FALSE(model.config.router.normalize);
}

TEST(Qwen2Moe, windows_of_attention_are_refused) {
  const auto expect_refused = [](const json& changes, const std::string& key) {
    expect_error(ExitCode::kBadData, {key}, [&] { static_cast<void>(qwen2(changes)); });
  };
  expect_refused({{"use_sliding_window", true}}, "use_sliding_window");
  expect_refused({{"layer_types", {"sliding_attention"}}}, "layer_types");
}

}  // namespace
}  // namespace sluice
