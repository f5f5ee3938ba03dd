#include "manifest/spelling.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(PlainName, has_no_wrapper) {
  EXPECT_EQ(plain_name("model.language_model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(plain_name("language_model.model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(plain_name("backbone.norm.weight"), "model.norm.weight");
  EXPECT_EQ(plain_name("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(plain_name("lm_head.weight"), "lm_head.weight");
}

TEST(PlainName, has_the_experts_of_transformers_module_tree) {
  EXPECT_EQ(plain_name("model.layers.3.block_sparse_moe.gate.weight"), "model.layers.3.mlp.gate.weight");
  EXPECT_EQ(plain_name("model.layers.3.block_sparse_moe.experts.7.w1.weight"),
            "model.layers.3.mlp.experts.7.gate_proj.weight");
  EXPECT_EQ(plain_name("model.language_model.layers.3.block_sparse_moe.experts.7.w3.weight"),
            "model.layers.3.mlp.experts.7.up_proj.weight");
  EXPECT_EQ(plain_name("model.layers.3.block_sparse_moe.experts.7.w2.weight"),
            "model.layers.3.mlp.experts.7.down_proj.weight");
  EXPECT_EQ(plain_name("model.layers.3.block_sparse_moe.experts.gate_up_proj"),
            "model.layers.3.mlp.experts.gate_up_proj");
}

TEST(PlainName, has_routers_biases_and_shared_experts_where_a_family_names_them_otherwise) {
  EXPECT_EQ(plain_name("model.layers.3.mlp.moe_statics.e_score_correction_bias"),
            "model.layers.3.mlp.gate.e_score_correction_bias");
  EXPECT_EQ(plain_name("model.layers.3.mlp.expert_bias"), "model.layers.3.mlp.gate.e_score_correction_bias");
  EXPECT_EQ(plain_name("model.layers.3.mlp.gate.expert_bias"),
            "model.layers.3.mlp.gate.e_score_correction_bias");
  EXPECT_EQ(plain_name("model.layers.3.mlp.router.gate.weight"), "model.layers.3.mlp.gate.weight");
  EXPECT_EQ(plain_name("backbone.layers.3.mixer.experts.7.up_proj.weight"),
            "model.layers.3.mlp.experts.7.up_proj.weight");
  EXPECT_EQ(plain_name("model.layers.3.mlp.shared_mlp.up_proj.weight"),
            "model.layers.3.mlp.shared_experts.up_proj.weight");
}

TEST(PlainName, is_its_own_plain_name) {
  for (const char* name :
       {"model.layers.3.mlp.experts.7.gate_proj.weight", "model.layers.3.mlp.gate.weight",
        "model.layers.3.mlp.gate_proj.weight", "model.layers.3.feed_forward.w1.weight",
        "model.layers.3.mixer.up_proj.weight", "model.layers.3.mixer.A_log",
        "model.layers.3.block_sparse_moe.w1.weight", "block_sparse_moe", ".experts.", "",
        "model.layers.3.mlp.router.weight", "model.layers.3.mlp.shared_experts.up_proj.weight",
        "model.layers.3.mlp.shared_expert.up_proj.weight"})
    EXPECT_EQ(plain_name(name), name);
}

TEST(Spelled, is_the_way_back) {
  for (const char* name :
       {"model.layers.3.block_sparse_moe.gate.weight", "model.layers.3.block_sparse_moe.experts.7.w1.weight",
        "model.layers.3.block_sparse_moe.experts.7.w2.weight",
        "model.layers.3.block_sparse_moe.experts.7.w3.weight",
        "model.layers.3.block_sparse_moe.experts.gate_up_proj", "model.layers.3.self_attn.q_proj.weight",
        "model.layers.3.mlp.gate_proj.weight", "model.norm.weight"})
    EXPECT_EQ(spelled(plain_name(name), kMixtralExperts), name);
}

TEST(Spelled, is_the_way_back_of_each_family) {
  for (const char* name :
       {"model.layers.3.mlp.moe_statics.e_score_correction_bias", "model.layers.3.mlp.gate.weight",
        "model.layers.3.mlp.shared_experts.up_proj.weight", "model.layers.3.mlp.experts.7.up_proj.weight"})
    EXPECT_EQ(spelled(plain_name(name), kErnieExperts), name);
  for (const char* name :
       {"model.layers.3.mlp.expert_bias", "model.layers.3.mlp.router.gate.weight",
        "model.layers.3.mlp.shared_mlp.up_proj.weight", "model.layers.3.mlp.experts.7.up_proj.weight",
        "model.layers.0.mlp.up_proj.weight"})
    EXPECT_EQ(spelled(plain_name(name), kHy3Experts), name);
  for (const char* name :
       {"model.layers.3.mlp.gate.expert_bias", "model.layers.3.mlp.gate.weight",
        "model.layers.3.mlp.shared_experts.up_proj.weight", "model.layers.3.mlp.experts.7.up_proj.weight"})
    EXPECT_EQ(spelled(plain_name(name), kBailingExperts), name);
}

TEST(Spelled, changes_nothing_in_the_module_trees_own_spelling) {
  for (const char* name : {"model.layers.3.mlp.experts.7.gate_proj.weight", "model.layers.3.mlp.gate.weight"})
    EXPECT_EQ(spelled(name, kPlainExperts), name);
}

}  // namespace
}  // namespace sluice
