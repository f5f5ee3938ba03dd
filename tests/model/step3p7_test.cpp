#include "model/families/step3p7.hpp"

#include "manifest/adapter.hpp"
#include "manifest/key_map.hpp"
#include "model/blocks/layer_blocks.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of Step-3.5-Flash with five layers and one behind them, and with changes: keys set to null are taken
/// away.
json step_config(const json& changes = json::object()) {
  json config = published_config("Step-3.5-Flash");
  config["num_hidden_layers"] = 5;
  config["num_nextn_predict_layers"] = 1;
  config["moe_layers_enum"] = "3,4";
  for (const char* key :
       {"layer_types", "rope_theta", "partial_rotary_factors", "swiglu_limits", "swiglu_limits_shared"})
    config[key].erase(config[key].begin() + 6, config[key].end());
  config["swiglu_limits"] = {0.0, 0.0, 0.0, 7.0, 0.0, 5.0};
  config["swiglu_limits_shared"] = {9.0, 0.0, 0.0, 16.0, 0.0, 5.0};
  config.merge_patch(changes);
  return config;
}

ModelDescription step(const json& changes = json::object()) {
  return describe_model_text(step_config(changes).dump(), "config.json", DType::kBFloat16);
}

void expect_step_refused(const json& changes, const std::vector<std::string>& parts) {
  SCOPED_TRACE(changes.dump());
  expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(step(changes)); });
}

/// What transformers 5 writes of the heads and the rotary embedding, in place of the published keys.
json saved_again() {
  return {
      {"attention_other_setting", nullptr},
      {"rope_theta", nullptr},
      {"partial_rotary_factors", nullptr},
      {"rope_scaling", nullptr},
      {"layer_types",
       {"full_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"}},
      {"num_sliding_attention_heads", 96},
      {"per_layer_config",
       {{"1", {{"num_attention_heads", 96}}},
        {"2", {{"num_attention_heads", 96}}},
        {"3", {{"num_attention_heads", 96}}}}},
      {"rope_parameters",
       {{"full_attention",
         {{"rope_type", "llama3"},
          {"rope_theta", 5e6},
          {"partial_rotary_factor", 0.5},
          {"factor", 2.0},
          {"low_freq_factor", 1.0},
          {"high_freq_factor", 32.0},
          {"original_max_position_embeddings", 131072}}},
        {"sliding_attention",
         {{"rope_type", "default"}, {"rope_theta", 10000.0}, {"partial_rotary_factor", 1.0}}}}}};
}

TEST(Step3p7, layers_with_a_window_have_heads_of_their_own) {
  const ModelDescription model = step();
  EXPECT_EQ(block_kinds(model.config), "FSSSF");
  for (const auto& [layer, heads] : {std::pair{0, 64}, {1, 96}}) {
    EXPECT_EQ(shape_of(model, layer_tensor_name(layer, "self_attn.q_proj.weight")),
              (Shape{heads * 128, 4096}));
    EXPECT_EQ(shape_of(model, layer_tensor_name(layer, "self_attn.k_proj.weight")), (Shape{8 * 128, 4096}));
    EXPECT_EQ(shape_of(model, layer_tensor_name(layer, "self_attn.gate_proj.weight")), (Shape{heads, 4096}));
  }
  EXPECT_EQ(step(saved_again()).config.heads_by_layer, model.config.heads_by_layer);
}

TEST(Step3p7, kinds_of_layers_rotate_by_their_own) {
  const ModelConfig config = step().config;
  const RotaryConfig& full = config.rotary_of(AttentionKind::kFull);
  EXPECT_EQ(full.dim, 64);
  EXPECT_EQ(full.theta, 5e6);
  EXPECT_EQ(full.scaling, RotaryScaling::kLlama3);
  EXPECT_EQ(full.original_length, 131'072);
  EXPECT_EQ(config.rotary_of(AttentionKind::kSliding), (RotaryConfig{.dim = 128, .theta = 10'000}));
  const ModelConfig again = step(saved_again()).config;
  EXPECT_EQ(again.rotary, config.rotary);
  EXPECT_EQ(again.sliding_rotary, config.sliding_rotary);
  EXPECT_EQ(step({{"rope_theta", 500.0}}).config.sliding_rotary->theta, 500);
  EXPECT_EQ(step({{"rope_theta", nullptr}}).config.rotary.theta, 10'000);
  EXPECT_EQ(step({{"partial_rotary_factors", nullptr}}).config.rotary.dim, 128);
}

TEST(Step3p7, a_null_rope_scaling_is_none) {
  json config = step_config(saved_again());
  config["rope_scaling"] = nullptr;
  EXPECT_EQ(describe_model_text(config.dump(), "config.json", DType::kBFloat16).config.rotary,
            step().config.rotary);
  json changes = saved_again();
  changes["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  expect_step_refused(changes, {"rope_scaling", "none"});
}

TEST(Step3p7, lists_that_do_not_fit_layers_are_refused) {
  expect_step_refused({{"rope_theta", {1.0, 2.0}}}, {"rope_theta", "5 layers"});
  expect_step_refused({{"rope_theta", json::array()}}, {"rope_theta", "found []", "5 layers"});
  expect_step_refused({{"rope_theta", {5.0, 1.0, 2.0, 1.0, 5.0}}},
                      {"rope_theta", "one number for all layers of a kind"});
  expect_step_refused({{"rope_theta", {5.0, 0.0, 0.0, 0.0, 5.0}}}, {"rope_theta", "above 0"});
  expect_step_refused({{"partial_rotary_factors", {0.5, 2.0, 2.0, 2.0, 0.5}}},
                      {"partial_rotary_factors", "at most 1"});
  expect_step_refused({{"swiglu_limits", {7.0}}}, {"swiglu_limits", "5 layers"});
  expect_step_refused({{"swiglu_limits_shared", std::vector<double>(5, -1)}},
                      {"swiglu_limits_shared", "0 for none"});
}

TEST(Step3p7, settings_that_transformers_ignores_do_not_contradict_others) {
  json flat = step_config()["rope_scaling"];
  flat["rope_theta"] = step_config()["rope_theta"];
  EXPECT_EQ(step({{"rope_parameters", flat}}).config.rotary, step().config.rotary);
  flat["factor"] = 4.0;
  expect_step_refused({{"rope_parameters", flat}}, {"rope_parameters", "transformers ignores it"});
  json both = saved_again();
  both["rope_theta"] = 5e6;
  expect_step_refused(both, {"rope_theta", "none", "rope_parameters"});
}

TEST(Step3p7, layers_with_experts_are_named_or_numbered) {
  using enum MlpKind;
  EXPECT_EQ(step().config.layers, (std::vector{kDense, kDense, kDense, kMoe, kMoe}));
  EXPECT_EQ(step({{"moe_layers_enum", {1, 5}}}).config.layers,
            (std::vector{kDense, kMoe, kDense, kDense, kDense}));
  EXPECT_EQ(step({{"moe_layers_enum", nullptr}}).config.layers, step().config.layers);
  const std::vector<std::string> names{"sparse", "dense", "dense", "dense", "sparse"};
  EXPECT_EQ(step({{"moe_layers_enum", nullptr}, {"mlp_layer_types", names}}).config.layers,
            (std::vector{kMoe, kDense, kDense, kDense, kMoe}));
  expect_step_refused({{"mlp_layer_types", names}}, {"moe_layers_enum", "mlp_layer_types"});
  expect_step_refused({{"moe_layers_enum", "1,x"}}, {"moe_layers_enum", "1,x", "commas"});
  expect_step_refused({{"moe_layers_enum", "6"}}, {"moe_layers_enum", "5 layers"});
  expect_step_refused({{"moe_layers_enum", "3,4,9999999999999999999"}}, {"moe_layers_enum", "commas"});
}

TEST(Step3p7, a_number_of_first_dense_layers_is_no_rule_of_its_own) {
  EXPECT_EQ(step({{"first_k_dense_replace", 3}}).config.layers, step().config.layers);
  expect_step_refused({{"first_k_dense_replace", 1}}, {"first_k_dense_replace", "moe_layers_enum"});
  expect_step_refused({{"moe_layers_enum", nullptr}, {"first_k_dense_replace", 1}},
                      {"first_k_dense_replace", "3 without either"});
  EXPECT_EQ(step({{"moe_layers_enum", "1,2,3,4"}, {"first_k_dense_replace", 1}}).config.moe_layer_count(), 4);
}

TEST(Step3p7, limits_are_those_of_each_layer_and_of_each_kind_of_mlp) {
  const ModelConfig config = step().config;
  EXPECT_EQ(config.swiglu_clamp, SwigluClamp::kSilu);
  EXPECT_EQ(config.of_layer(0).swiglu_limits, (SwigluLimits{.shared_expert = 9, .dense = 9}));
  EXPECT_EQ(config.of_layer(1).swiglu_limits, SwigluLimits{});
  EXPECT_EQ(config.of_layer(3).swiglu_limits, (SwigluLimits{.experts = 7, .shared_expert = 16, .dense = 16}));
  const ModelConfig nulls = step({{"swiglu_limits", {nullptr, nullptr, nullptr, 7.0, nullptr}},
                                  {"swiglu_limits_shared", {9.0, nullptr, nullptr, 16.0, nullptr, nullptr}}})
                                .config;
  EXPECT_EQ(nulls.limits_by_layer, config.limits_by_layer);
}

TEST(Step3p7, scores_have_the_factor_of_the_config) {
  EXPECT_FALSE(step().config.score_factor);
  EXPECT_FALSE(step({{"query_pre_attn_scalar", 128}}).config.score_factor);
  EXPECT_EQ(step({{"query_pre_attn_scalar", 64}}).config.score_factor, 0.125);
}

std::set<std::string> names_of(const ModelDescription& model) {
  const KeyMap keys(model.manifest);
  std::set<std::string> names;
  for (const PublishedTensor& tensor : keys.published(ExpertLayout::kPerExpert)) {
    names.insert(tensor.name);
    EXPECT_TRUE(std::holds_alternative<KeyTarget>(keys.resolve(tensor.name))) << tensor.name;
  }
  return names;
}

TEST(Step3p7, checkpoints_have_names_of_their_own_whether_there_is_a_vision_tower_or_not) {
  const ModelDescription model = step();
  const std::set<std::string> names = names_of(model);
  for (const char* name : {"model.layers.0.mlp.up_proj.weight", "model.layers.0.self_attn.g_proj.weight",
                           "model.layers.4.moe.gate.weight", "model.layers.4.moe.router_bias",
                           "model.layers.4.moe.gate_proj.weight", "model.layers.4.moe.down_proj.weight",
                           "model.layers.4.share_expert.down_proj.weight", "lm_head.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_TRUE(find_adaptable(model.manifest, "model.layers.4.mlp.shared_experts.up_proj.weight"));
  json text = step_config();
  const json whole{{"model_type", "step3p7"}, {"text_config", text}};
  const ModelDescription wrapped = describe_model_text(whole.dump(), "config.json", DType::kBFloat16);
  EXPECT_EQ(names_of(wrapped), names);
  EXPECT_EQ(wrapped.manifest.wrapped_name("model.norm.weight"), "model.language_model.norm.weight");
  for (const char* name :
       {"vision_model.conv1.weight", "vit_large_projector.weight", "model.layers.5.eh_proj.weight"})
    EXPECT_TRUE(std::holds_alternative<IgnoredKey>(KeyMap(wrapped.manifest).resolve(name))) << name;
}

TEST(Step3p7, what_would_be_computed_wrongly_is_refused) {
  for (const char* key : {"sink", "use_bidirectional_attention", "mlp_bias"})
    expect_step_refused({{key, true}}, {key, "found true", "false"});
  for (const char* key : {"use_moe", "use_moe_router_bias", "norm_expert_weight", "use_head_wise_attn_gate",
                          "zero_centered", "use_qk_norm", "need_fp32_gate"})
    expect_step_refused({{key, false}}, {key, "found false", "true"});
  expect_step_refused({{"gating", "per-element"}}, {"gating", "per-head"});
  expect_step_refused({{"moe_router_activation", "softmax"}}, {"moe_router_activation", "'sigmoid'"});
  expect_step_refused({{"use_rope_layers", {1}}}, {"use_rope_layers", "an empty list"});
  expect_step_refused({{"yarn_only_types", {"sliding_attention"}}}, {"yarn_only_types", "full_attention"});
  expect_step_refused({{"sliding_window", nullptr}}, {"sliding_window"});
  expect_step_refused({{"moe_every_n_layer", 2}}, {"moe_every_n_layer", "found 2", "1"});
  expect_step_refused({{"moe_layer_offset", 1}}, {"moe_layer_offset", "found 1", "0"});
}

TEST(Step3p7, spellings_of_a_number_that_differ_are_refused) {
  expect_step_refused({{"num_experts_per_tok", 4}}, {"moe_top_k", "found 8", "num_experts_per_tok = 4"});
  expect_step_refused({{"num_mtp_layers", 0}}, {"num_mtp_layers", "num_nextn_predict_layers = 1"});
  EXPECT_EQ(step({{"num_mtp_layers", 1}}).config.prediction_layers, 1);
  for (const char* key : {"n_routed_experts", "num_local_experts", "num_experts"}) {
    expect_step_refused({{key, 144}}, {key, "288", "moe_num_experts"});
    EXPECT_EQ(step({{key, 288}}).config.experts, 288);
  }
}

TEST(Step3p7, heads_may_be_told_by_layer_alone) {
  json changes = saved_again();
  changes["num_sliding_attention_heads"] = nullptr;
  EXPECT_EQ(step(changes).config.heads_by_layer, step().config.heads_by_layer);
}

TEST(Step3p7, heads_that_contradict_each_other_are_refused) {
  const auto other = [](const char* key, const json& value) {
    return json{{"attention_other_setting", {{key, value}}}};
  };
  expect_step_refused(other("head_dim", 64), {"attention_other_setting: head_dim", "128"});
  expect_step_refused(other("num_attention_groups", 4),
                      {"attention_other_setting: num_attention_groups", "8"});
  expect_step_refused(other("num_attention_heads", 9), {"attention_other_setting", "multiples of 8"});
  expect_step_refused({{"num_sliding_attention_heads", 64}}, {"num_sliding_attention_heads", "96"});
  expect_step_refused({{"attention_other_setting", nullptr}, {"num_sliding_attention_heads", 9}},
                      {"num_sliding_attention_heads", "found 9", "multiples of 8"});
  json again = saved_again();
  again["num_sliding_attention_heads"] = 64;
  expect_step_refused(again, {"per_layer_config", "64 heads"});
  again = saved_again();
  again["per_layer_config"]["1"]["head_dim"] = 64;
  expect_step_refused(again, {"per_layer_config: 1: head_dim", "num_attention_heads alone"});
}

}  // namespace
}  // namespace sluice
