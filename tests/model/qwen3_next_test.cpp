#include "model/families/qwen3_next.hpp"

#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of Qwen3-Next-80B-A3B-Instruct, with changes: keys set to null are taken away.
ModelDescription qwen3_next(const json& changes = json::object()) {
  json config = published_config("Qwen3-Next-80B-A3B");
  config.merge_patch(changes);
  const ModelConfig read = read_qwen3_next_config(ConfigReader::parse(config.dump(), "config.json"));
  return {read, describe_qwen3_next(read, DType::kBFloat16)};
}

TEST(Qwen3Next, attends_linearly_in_three_layers_of_four) {
  const ModelDescription model = qwen3_next();
  EXPECT_EQ(model.config.attention[2], AttentionKind::kLinear);
  EXPECT_EQ(model.config.attention[3], AttentionKind::kFull);
  EXPECT_EQ(model.config.attention[47], AttentionKind::kFull);
}

TEST(Qwen3Next, has_the_tensors_of_qwen3_5) {
  const ModelDescription model = qwen3_next();
  EXPECT_EQ(shape_of(model, "model.layers.0.linear_attn.in_proj_qkv.weight"), (Shape{2 * 2048 + 4096, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.linear_attn.in_proj_z.weight"), (Shape{4096, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.linear_attn.in_proj_b.weight"), (Shape{32, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.linear_attn.in_proj_a.weight"), (Shape{32, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.3.self_attn.q_proj.weight"), (Shape{2 * 16 * 256, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.3.mlp.shared_expert_gate.weight"), (Shape{1, 2048}));
  EXPECT_EQ(model.config.rotary.dim, 64);
  EXPECT_TRUE(model.config.zero_centred_norms);
}

TEST(Qwen3Next, layers_may_have_a_dense_mlp) {
  const ModelDescription model = qwen3_next({{"mlp_only_layers", {1}}, {"decoder_sparse_step", 2}});
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.up_proj.weight"), (Shape{5120, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.up_proj.weight"), (Shape{5120, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.3.mlp.gate.weight"), (Shape{512, 2048}));
  EXPECT_EQ(model.config.moe_layer_count(), 23);
}

TEST(Qwen3Next, absent_keys_have_transformers_defaults) {
  const ModelConfig config = qwen3_next({{"decoder_sparse_step", nullptr},
                                         {"full_attention_interval", nullptr},
                                         {"head_dim", nullptr},
                                         {"mlp_only_layers", nullptr},
                                         {"norm_topk_prob", nullptr},
                                         {"num_key_value_heads", nullptr},
                                         {"partial_rotary_factor", nullptr},
                                         {"rms_norm_eps", nullptr}})
                                 .config;
  EXPECT_EQ(config.moe_layer_count(), 48);
  EXPECT_EQ(config.attention[3], AttentionKind::kFull);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_TRUE(config.router.normalize);
  EXPECT_EQ(config.key_value_heads, 2);
  EXPECT_EQ(config.rotary.dim, 64);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
}

TEST(Qwen3Next, what_no_block_computes_is_refused) {
  const auto expect_refused = [](const json& changes, const std::vector<std::string>& parts) {
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(qwen3_next(changes)); });
  };
  expect_refused({{"attention_bias", true}}, {"attention_bias", "found true", "false"});
  expect_refused({{"hidden_act", "gelu"}}, {"hidden_act", "gelu", "'silu'"});
  expect_refused({{"use_sliding_window", true}}, {"use_sliding_window", "found true", "false"});
  expect_refused({{"attention_dropout", 0.1}}, {"attention_dropout", "found 0.1", "0"});
  expect_refused({{"linear_num_value_heads", 24}}, {"linear_num_value_heads", "found 24", "16"});
  expect_refused({{"layer_types", {"linear_attention"}}}, {"layer_types", "48"});
  expect_refused({{"mlp_only_layers", {48}}}, {"mlp_only_layers", "indices of layers"});
}

}  // namespace
}  // namespace sluice
