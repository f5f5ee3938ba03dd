#include "model/families/kimi_linear.hpp"

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

/// config.json of Kimi-Linear-48B-A3B with changes: keys set to null are taken away.
ModelDescription kimi(const json& changes = json::object()) {
  json config = published_config("Kimi-Linear-48B-A3B");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

void expect_kimi_refused(const json& changes, const std::vector<std::string>& parts) {
  SCOPED_TRACE(changes.dump());
  expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(kimi(changes)); });
}

TEST(KimiLinear, layers_are_numbered_from_1_and_latent_attention_does_not_rotate) {
  const ModelDescription model = kimi();
  EXPECT_EQ(block_kinds(model.config), "KKKLKKKLKKKLKKKLKKKLKKKLKKL");
  EXPECT_EQ(model.config.layers[0], MlpKind::kDense);
  EXPECT_EQ(model.config.layers[1], MlpKind::kMoe);
  EXPECT_EQ(model.config.rotary.dim, 0);
  EXPECT_EQ(model.config.max_positions, 1'048'576);
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_proj.weight"), (Shape{4096, 2304}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.conv1d.weight"), (Shape{3 * 4096, 1, 4}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.forget_gate.f_a_proj.weight"), (Shape{128, 2304}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.g_b_proj.weight"), (Shape{4096, 128}));
  EXPECT_EQ(shape_of(model, "model.layers.3.self_attn.q_proj.weight"), (Shape{32 * 192, 2304}));
  EXPECT_EQ(shape_of(model, "model.layers.3.self_attn.kv_a_proj_with_mqa.weight"), (Shape{576, 2304}));
}

TEST(KimiLinear, layer_types_come_before_the_numbered_lists_and_every_fourth_layer_attends_without_either) {
  const std::vector<std::string> types{"full_attention", "linear_attention"};
  EXPECT_EQ(block_kinds(kimi({{"layer_types", types}, {"num_hidden_layers", 2}}).config), "LK");
  EXPECT_EQ(block_kinds(kimi({{"linear_attn_config", nullptr}, {"num_hidden_layers", 9}}).config),
            "KKKKLKKKL");
}

TEST(KimiLinear, lists_by_layer_may_reach_over_layers_for_multi_token_prediction) {
  const std::vector<std::string> types{"full_attention", "linear_attention", "full_attention"};
  const json changes{{"layer_types", types}, {"num_hidden_layers", 2}, {"num_nextn_predict_layers", 1}};
  EXPECT_EQ(block_kinds(kimi(changes).config), "LK");
}

TEST(KimiLinear, heads_stand_in_a_part_of_their_own_or_beside_other_keys) {
  const json beside{{"linear_attn_config", nullptr},
                    {"linear_num_heads", 6},
                    {"linear_head_dim", 24},
                    {"linear_conv_kernel_dim", 3}};
  const LinearAttentionConfig linear = kimi(beside).config.linear_attention;
  EXPECT_EQ(linear.value_heads, 6);
  EXPECT_EQ(linear.key_head_dim, 24);
  EXPECT_EQ(linear.gate_rank, 24);
  EXPECT_EQ(linear.conv_kernel_size, 3);
  EXPECT_EQ(kimi({{"linear_attn_config", nullptr}}).config.linear_attention.value_heads, 32);
}

TEST(KimiLinear, decays_are_float32_parameters_whatever_their_dimensions) {
  const ModelDescription model = kimi();
  for (const char* name :
       {"model.layers.0.self_attn.forget_gate.A_log", "model.layers.0.self_attn.forget_gate.dt_bias"}) {
    const TensorInfo& tensor = model.manifest[model.manifest.find(name).value()];
    EXPECT_EQ(tensor.kind, TensorKind::kFloat32Parameter) << name;
  }
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.forget_gate.A_log"), (Shape{1, 1, 32, 1}));
}

TEST(KimiLinear, checkpoints_have_names_of_their_own) {
  const ModelDescription model = kimi();
  std::set<std::string> names;
  for (const PublishedTensor& tensor : KeyMap(model.manifest).published(ExpertLayout::kPerExpert))
    names.insert(tensor.name);
  for (const char* name :
       {"0.self_attn.q_conv1d.weight", "0.self_attn.v_conv1d.weight", "0.self_attn.A_log",
        "0.self_attn.dt_bias", "0.self_attn.f_a_proj.weight", "0.self_attn.f_b_proj.weight",
        "0.mlp.gate_proj.weight", "1.block_sparse_moe.experts.255.w1.weight",
        "1.block_sparse_moe.gate.e_score_correction_bias", "1.block_sparse_moe.shared_experts.up_proj.weight",
        "3.self_attn.kv_b_proj.weight"})
    EXPECT_TRUE(names.contains("model.layers." + std::string(name))) << name;
  const KeyMap keys(model.manifest);
  for (const std::string& name : names)
    EXPECT_TRUE(std::holds_alternative<KeyTarget>(keys.resolve(name))) << name;
  EXPECT_TRUE(
      std::holds_alternative<KeyTarget>(keys.resolve("model.layers.0.block_sparse_moe.up_proj.weight")))
      << "as transformers saves a dense layer";
}

TEST(KimiLinear, all_projections_can_be_adapted_and_neither_convolutions_nor_decays) {
  std::set<std::string> names;
  for (const AdaptableWeight& weight : adaptable_weights(kimi().manifest))
    if (weight.info.name.starts_with("model.layers.0.self_attn.")) names.insert(weight.info.name.substr(25));
  EXPECT_EQ(names, (std::set<std::string>{"q_proj.weight", "k_proj.weight", "v_proj.weight", "b_proj.weight",
                                          "forget_gate.f_a_proj.weight", "forget_gate.f_b_proj.weight",
                                          "g_a_proj.weight", "g_b_proj.weight", "o_proj.weight"}));
}

TEST(KimiLinear, what_no_block_computes_is_refused) {
  expect_kimi_refused({{"mla_use_nope", false}}, {"mla_use_nope", "false"});
  expect_kimi_refused({{"mla_use_output_gate", true}}, {"mla_use_output_gate", "true"});
  expect_kimi_refused({{"latent_moe_use_norm", true}}, {"latent_moe_use_norm"});
  expect_kimi_refused({{"routed_expert_hidden_size", 512}}, {"routed_expert_hidden_size", "512"});
  expect_kimi_refused({{"attn_res_block_size", 12}}, {"attn_res_block_size"});
  expect_kimi_refused({{"linear_attn_config", {{"gate_lower_bound", -5.0}}}}, {"gate_lower_bound"});
  expect_kimi_refused({{"linear_attn_config", {{"use_full_rank_gate", true}}}}, {"use_full_rank_gate"});
  expect_kimi_refused({{"moe_layer_freq", 2}}, {"moe_layer_freq", "2"});
  expect_kimi_refused({{"moe_router_activation_func", "softmax"}}, {"moe_router_activation_func", "softmax"});
  expect_kimi_refused({{"hidden_act", "situ"}}, {"hidden_act", "situ"});
  expect_kimi_refused({{"linear_attn_config", {{"kda_layers", {1, 2}}}}}, {"linear_attn_config"});
  expect_kimi_refused({{"linear_attn_config", {{"kda_layers", {0}}}}}, {"kda_layers", "from 1"});
  expect_kimi_refused({{"num_expert_group", 3}}, {"num_expert_group", "3"});
}

}  // namespace
}  // namespace sluice
