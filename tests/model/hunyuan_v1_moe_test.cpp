#include "model/families/hunyuan_v1_moe.hpp"

#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of Hunyuan A13B with changes: keys set to null are taken away.
ModelDescription hunyuan(const json& changes = json::object()) {
  json config = published_config("Hunyuan-A13B");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

TEST(HunyuanV1Moe, every_layer_has_experts_and_a_shared_one_of_their_width) {
  const ModelDescription model = hunyuan();
  EXPECT_EQ(model.config.moe_layer_count(), 32);
  EXPECT_EQ(model.config.experts_per_token, 8);
  EXPECT_TRUE(model.config.norms_behind_rotation);
  EXPECT_EQ(shape_of(model, "model.layers.31.mlp.experts.gate_up_proj"), (Shape{64, 2 * 3072, 4096}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.shared_experts.up_proj.weight"), (Shape{3072, 4096}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_norm.weight"), (Shape{128}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.o_proj.bias"), (Shape{-1}));
  EXPECT_EQ(shape_of(hunyuan({{"attention_bias", true}}), "model.layers.0.self_attn.o_proj.bias"),
            (Shape{4096}));
}

TEST(HunyuanV1Moe, alpha_stretches_the_rotation_whatever_the_length) {
  EXPECT_DOUBLE_EQ(hunyuan().config.rotary.theta, 1e4 * std::pow(1000.0, 128.0 / 126));
  EXPECT_EQ(hunyuan().config.rotary.scaling, RotaryScaling::kNone);
  EXPECT_EQ(hunyuan({{"rope_scaling", nullptr}}).config.rotary.theta, 1e4);
}

TEST(HunyuanV1Moe, a_number_for_all_layers_may_be_a_list) {
  EXPECT_EQ(hunyuan({{"moe_topk", nullptr}, {"num_experts_per_tok", 4}}).config.experts_per_token, 4);
  EXPECT_EQ(hunyuan({{"moe_topk", 4}}).config.experts_per_token, 4);
  EXPECT_EQ(hunyuan({{"moe_topk", std::vector<int>(32, 4)}}).config.experts_per_token, 4);
}

TEST(HunyuanV1Moe, what_no_block_computes_is_refused) {
  const auto expect_refused = [](const json& changes, const std::vector<std::string>& parts) {
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(hunyuan(changes)); });
  };
  std::vector<int> unequal(32, 8);
  unequal.back() = 4;
  expect_refused({{"moe_topk", unequal}}, {"moe_topk", "one number above 0 for all 32 layers"});
  expect_refused({{"moe_topk", {4, 4}}}, {"moe_topk", "32 layers"});
  expect_refused({{"head_dim", nullptr}}, {"head_dim", "even number"});
  expect_refused({{"moe_topk", 65}}, {"moe_topk", "found 65", "64"});
  expect_refused({{"num_experts", unequal}}, {"num_experts"});
  expect_refused({{"num_shared_expert", 2}}, {"num_shared_expert", "found 2", "expected 1"});
  expect_refused({{"moe_intermediate_size", 1024}}, {"moe_intermediate_size", "found 1024", "3072"});
  expect_refused({{"attention_head_dim", 64}}, {"attention_head_dim", "found 64", "128"});
  for (const char* key : {"use_cla", "mlp_bias", "group_limited_greedy", "position_embedding_xdrope"})
    expect_refused({{key, true}}, {key, "false"});
  for (const char* key : {"use_qk_norm", "use_mixed_mlp_moe", "norm_topk_prob"})
    expect_refused({{key, false}}, {key, "true"});
  expect_refused({{"moe_layer_num_skipped", 1}}, {"moe_layer_num_skipped", "expected 0"});
  expect_refused({{"rope_scaling", {{"alpha", nullptr}}}}, {"rope_scaling", "type", "dynamic"});
}

}  // namespace
}  // namespace sluice
