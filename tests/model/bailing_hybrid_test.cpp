#include "model/families/bailing_hybrid.hpp"

#include "manifest/adapter.hpp"
#include "manifest/key_map.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of Ling-3.0-tiny with changes: keys set to null are taken away.
ModelDescription ling3(const json& changes = json::object()) {
  json config = published_config("Ling-3.0-tiny");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

void expect_ling3_refused(const json& changes, const std::vector<std::string>& parts) {
  SCOPED_TRACE(changes.dump());
  expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(ling3(changes)); });
}

TEST(BailingHybrid, the_last_layer_of_each_group_has_latent_attention) {
  const ModelDescription model = ling3();
  EXPECT_EQ(block_kinds(model.config), "KKKLKKKLKKKLKKKLKKKLKKKL");
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_proj.weight"), (Shape{2048, 1536}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.conv1d.weight"), (Shape{3 * 2048, 1, 4}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.forget_gate.f_proj.weight"), (Shape{2048, 1536}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.forget_gate.A_log"), (Shape{16}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.g_proj.weight"), (Shape{2048, 1536}));
  EXPECT_EQ(shape_of(model, "model.layers.3.self_attn.q_b_proj.weight"), (Shape{16 * 192, 256}));
  EXPECT_EQ(shape_of(model, "model.layers.3.self_attn.g_proj.weight"), (Shape{16, 1536}));
  EXPECT_EQ(model.config.layers[0], MlpKind::kDense);
  EXPECT_EQ(model.config.layers[1], MlpKind::kMoe);
}

TEST(BailingHybrid, layer_types_come_before_the_size_of_groups) {
  const std::vector<std::string> types{"full_attention", "linear_attention"};
  EXPECT_EQ(block_kinds(ling3({{"layer_types", types}, {"num_hidden_layers", 2}}).config), "LK");
  EXPECT_EQ(block_kinds(ling3({{"layer_group_size", nullptr}, {"num_hidden_layers", 7}}).config), "KKKKKLK");
}

TEST(BailingHybrid, the_size_of_a_head_is_that_of_delta_nets_and_a_part_of_other_heads_turns) {
  const ModelConfig config = ling3().config;
  EXPECT_EQ(config.linear_attention.key_head_dim, 128);
  EXPECT_EQ(config.linear_attention.value_heads, 16);
  EXPECT_EQ(config.linear_attention.least_log_decay, -5.0);
  EXPECT_EQ(config.rotary.dim, 64);
  EXPECT_TRUE(config.rotary.interleaved);
  // As transformers writes it again.
  const ModelConfig again = ling3({{"head_dim", 64}, {"linear_head_dim", 128}}).config;
  EXPECT_EQ(again.linear_attention.key_head_dim, 128);
  EXPECT_EQ(again.rotary, config.rotary);
  EXPECT_EQ(ling3({{"partial_rotary_factor", nullptr}}).config.rotary, config.rotary);
}

TEST(BailingHybrid, decays_may_have_no_bound) {
  EXPECT_FALSE(ling3({{"kda_safe_gate", false}}).config.linear_attention.least_log_decay);
}

TEST(BailingHybrid, chooses_by_corrected_sigmoids_in_groups) {
  EXPECT_EQ(ling3().config.router, (RouterConfig{.score = RouterScore::kSigmoid,
                                                 .has_correction_bias = true,
                                                 .groups = 8,
                                                 .chosen_groups = 4,
                                                 .normalize = true,
                                                 .epsilon = 1e-20,
                                                 .scale = 2.5}));
}

TEST(BailingHybrid, limits_are_those_of_each_layer_and_of_each_kind_of_expert) {
  EXPECT_EQ(ling3().config.of_layer(3).swiglu_limits, SwigluLimits{});
  EXPECT_TRUE(ling3().config.limits_by_layer.empty());
  const json three{{"num_hidden_layers", 3}, {"num_nextn_predict_layers", 1}};
  json limits = three;
  limits["expert_swiglu_limit_list"] = {0.0, 0, 4, 9};  // the last is of a layer for multi-token prediction
  limits["share_expert_swiglu_limit_list"] = {0.0, 5.5, 7.0};
  const ModelConfig config = ling3(limits).config;
  EXPECT_EQ(config.swiglu_clamp, SwigluClamp::kSilu);
  EXPECT_EQ(config.of_layer(0).swiglu_limits, SwigluLimits{});
  EXPECT_EQ(config.of_layer(1).swiglu_limits, (SwigluLimits{.shared_expert = 5.5}));
  EXPECT_EQ(config.of_layer(2).swiglu_limits, (SwigluLimits{.experts = 4, .shared_expert = 7}));
  EXPECT_EQ(ling3({{"expert_swiglu_limit_list", json::array()}}).config.of_layer(5).swiglu_limits,
            SwigluLimits{});
}

TEST(BailingHybrid, checkpoints_have_names_of_their_own) {
  const ModelDescription model = ling3();
  const KeyMap keys(model.manifest);
  std::set<std::string> names;
  for (const PublishedTensor& tensor : keys.published(ExpertLayout::kPerExpert)) {
    names.insert(tensor.name);
    EXPECT_TRUE(std::holds_alternative<KeyTarget>(keys.resolve(tensor.name))) << tensor.name;
  }
  for (const char* name :
       {"model.word_embeddings.weight", "model.layers.0.attention.q_conv1d.weight",
        "model.layers.0.attention.v_conv1d.weight", "model.layers.0.attention.dt_bias",
        "model.layers.0.attention.A_log", "model.layers.0.attention.f_proj.weight",
        "model.layers.0.attention.g_proj.weight", "model.layers.0.attention.o_norm.weight",
        "model.layers.0.attention.o_proj.weight", "model.layers.3.attention.dense.weight",
        "model.layers.3.attention.g_proj.weight", "model.layers.3.attention.kv_a_layernorm.weight",
        "model.layers.1.mlp.gate.expert_bias", "model.layers.1.mlp.shared_experts.up_proj.weight",
        "model.layers.1.mlp.experts.7.up_proj.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
  // transformers calls the output of both mixers so.
  EXPECT_TRUE(std::holds_alternative<KeyTarget>(keys.resolve("model.layers.0.attention.dense.weight")));
}

TEST(BailingHybrid, what_no_block_computes_is_refused) {
  expect_ling3_refused({{"architectures", {"BailingMoeV2_5ForCausalLM"}}},
                       {"architectures", "BailingMoeV2_5ForCausalLM", "BailingMoeV3ForCausalLM"});
  for (const char* key : {"use_bias", "use_qkv_bias", "use_mla_nope", "use_kda_lora", "use_nGPT",
                          "scale_router_input", "value_norm", "up_proj_norm", "tie_word_embeddings"})
    expect_ling3_refused({{key, true}}, {key, "found true", "false"});
  for (const char* key : {"moe_router_enable_expert_bias", "no_kda_lora", "rope_interleave", "use_qk_norm"})
    expect_ling3_refused({{key, false}}, {key, "found false", "true"});
  expect_ling3_refused({{"gated_attention_proj_granularity_type", "element_wise"}}, {"'head_wise'"});
  expect_ling3_refused({{"attention_bias", true}}, {"attention_bias", "found true", "false"});
  expect_ling3_refused({{"linear_num_heads", 7}}, {"linear_num_heads", "found 7"});
  expect_ling3_refused({{"linear_conv_kernel_dim", 3}}, {"linear_conv_kernel_dim", "found 3", "expected 4"});
  expect_ling3_refused({{"num_expert_group", 2}}, {"num_expert_group", "found 2", "n_group = "});
  expect_ling3_refused({{"num_experts_per_token", 2}}, {"found 2", "num_experts_per_tok = "});
  expect_ling3_refused({{"rotary_dim", 32}}, {"found 32", "64"});
  expect_ling3_refused({{"kda_lower_bound", 0.5}}, {"found 0.5", "below 0"});
  expect_ling3_refused({{"moe_shared_expert_intermediate_size", 1024}}, {"found 1024", "512"});
  for (const char* key : {"expert_swiglu_limit_list", "share_expert_swiglu_limit_list"}) {
    expect_ling3_refused({{key, {4.0, 4.0}}}, {key, "24 layers"});
    expect_ling3_refused({{key, std::vector<double>(24, -1)}}, {key, "0 for none"});
    expect_ling3_refused({{key, "4"}}, {key, "a list of numbers"});
  }
}

}  // namespace
}  // namespace sluice
