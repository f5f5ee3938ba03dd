#include "model/families/bailing_moe_v2.hpp"

#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of Ling-mini-2.0, with changes: keys set to null are taken away.
ModelDescription ling(const json& changes = json::object()) {
  json config = published_config("Ling-mini-2.0");
  config.merge_patch(changes);
  const ModelConfig read = read_bailing_moe_v2_config(ConfigReader::parse(config.dump(), "config.json"));
  return {read, describe_bailing_moe_v2(read, DType::kBFloat16)};
}

TEST(BailingMoeV2, has_the_tensors_of_the_module_tree) {
  const ModelDescription model = ling();
  EXPECT_EQ(shape_of(model, "model.embed_tokens.weight"), (Shape{157184, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_proj.weight"), (Shape{16 * 128, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.v_proj.weight"), (Shape{4 * 128, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.k_norm.weight"), (Shape{128}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.up_proj.weight"), (Shape{5120, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.gate.e_score_correction_bias"), (Shape{256}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.shared_experts.up_proj.weight"), (Shape{512, 2048}));
}

TEST(BailingMoeV2, chooses_by_corrected_sigmoids_in_groups) {
  EXPECT_EQ(ling().config.router, (RouterConfig{.score = RouterScore::kSigmoid,
                                                .has_correction_bias = true,
                                                .groups = 8,
                                                .chosen_groups = 4,
                                                .normalize = true,
                                                .epsilon = 1e-20,
                                                .scale = 2.5}));
}

TEST(BailingMoeV2, the_weight_of_one_chosen_expert_is_not_normalised) {
  EXPECT_FALSE(ling({{"num_experts_per_tok", 1}}).config.router.normalize);
}

TEST(BailingMoeV2, two_keys_say_how_much_of_a_head_turns) {
  EXPECT_EQ(ling().config.rotary.dim, 64);
  EXPECT_EQ(ling({{"partial_rotary_factor", nullptr}, {"rotary_dim", 32}}).config.rotary.dim, 32);
  EXPECT_EQ(ling({{"rotary_dim", 64}}).config.rotary.dim, 64);
  EXPECT_EQ(ling({{"partial_rotary_factor", nullptr}}).config.rotary.dim, 128);
}

TEST(BailingMoeV2, absent_keys_have_the_defaults_of_its_published_code) {
  const ModelConfig config = ling({{"first_k_dense_replace", nullptr},
                                   {"head_dim", nullptr},
                                   {"n_group", nullptr},
                                   {"num_key_value_heads", nullptr},
                                   {"num_shared_experts", nullptr},
                                   {"pad_token_id", nullptr},
                                   {"rope_theta", nullptr},
                                   {"routed_scaling_factor", nullptr},
                                   {"topk_group", nullptr},
                                   {"use_qk_norm", nullptr}})
                                 .config;
  EXPECT_EQ(config.moe_layer_count(), 19);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.router.groups, 8);
  EXPECT_EQ(config.router.chosen_groups, 4);
  EXPECT_EQ(config.router.scale, 1);
  EXPECT_EQ(config.key_value_heads, 4);
  EXPECT_EQ(config.shared_expert_intermediate_size, 512);
  EXPECT_EQ(config.padding_token, 156'892);
  EXPECT_EQ(config.rotary.theta, 600'000);
  EXPECT_EQ(config.query_key_norm, QueryKeyNorm::kPerHead);
}

TEST(BailingMoeV2, what_no_block_computes_is_refused) {
  const auto expect_refused = [](const char* key, const json& value, const std::vector<std::string>& parts) {
    std::vector<std::string> all{key};
    all.insert(all.end(), parts.begin(), parts.end());
    expect_error(ExitCode::kBadData, all, [&] { static_cast<void>(ling({{key, value}})); });
  };
  for (const char* key : {"use_bias", "use_qkv_bias", "norm_head", "rope_interleave", "use_sliding_window"})
    expect_refused(key, true, {"found true", "false"});
  for (const char* key : {"moe_router_enable_expert_bias", "norm_topk_prob", "use_rmsnorm"})
    expect_refused(key, false, {"found false", "true"});
  for (const char* key : {"attention_dropout", "embedding_dropout", "output_dropout"})
    expect_refused(key, 0.1, {"found 0.1", "0"});
  expect_refused("score_function", "softmax", {"softmax", "'sigmoid'"});
  expect_refused("router_dtype", "bf16", {"bf16", "'fp32'"});
  expect_refused("rotary_dim", 32, {"found 32", "64"});
  expect_refused("moe_shared_expert_intermediate_size", 1024, {"found 1024", "512"});
}

}  // namespace
}  // namespace sluice
