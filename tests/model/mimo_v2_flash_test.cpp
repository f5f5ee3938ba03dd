#include "model/families/mimo_v2_flash.hpp"

#include "manifest/key_map.hpp"
#include "model/agreed_settings.hpp"
#include "model/blocks/layer_blocks.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of MiMo-V2-Flash with four layers and changes: keys set to null are taken away.
ModelDescription mimo(const json& changes = json::object()) {
  json config = published_config("MiMo-V2-Flash");
  config["num_hidden_layers"] = 4;
  config["hybrid_layer_pattern"] = {0, 1, 1, 0};
  config["moe_layer_freq"] = {0, 1, 0, 1};
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

/// The same with a key that is null.
ModelDescription mimo_with_null(const char* key) {
  json config = published_config("MiMo-V2-Flash");
  config[key] = nullptr;
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

void expect_mimo_refused(const json& changes, const std::vector<std::string>& parts) {
  expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(mimo(changes)); });
}

TEST(MimoV2Flash, layers_with_a_window_have_heads_and_sinks_of_their_own_and_values_are_narrower_than_keys) {
  const ModelDescription model = mimo({{"swa_num_attention_heads", 32}, {"swa_head_dim", 168}});
  const auto shape = [&](int layer, const char* name) {
    return shape_of(model, layer_tensor_name(layer, name));
  };
  EXPECT_EQ(shape(0, "self_attn.q_proj.weight"), (Shape{64 * 192, 4096}));
  EXPECT_EQ(shape(0, "self_attn.k_proj.weight"), (Shape{4 * 192, 4096}));
  EXPECT_EQ(shape(0, "self_attn.v_proj.weight"), (Shape{4 * 128, 4096}));
  EXPECT_EQ(shape(0, "self_attn.o_proj.weight"), (Shape{4096, 64 * 128}));
  EXPECT_EQ(shape(0, "self_attn.sinks"), (Shape{-1}));
  EXPECT_EQ(shape(1, "self_attn.q_proj.weight"), (Shape{32 * 168, 4096}));
  EXPECT_EQ(shape(1, "self_attn.k_proj.weight"), (Shape{8 * 168, 4096}));
  EXPECT_EQ(shape(1, "self_attn.v_proj.weight"), (Shape{8 * 128, 4096}));
  EXPECT_EQ(shape(1, "self_attn.o_proj.weight"), (Shape{4096, 32 * 128}));
  EXPECT_EQ(shape(1, "self_attn.sinks"), (Shape{32}));
  EXPECT_EQ(layer_cache(model.config, 0, 2).position_bytes, 4 * (192 + 128) * 2);
  EXPECT_EQ(model.config.value_factor, 0.707);
  EXPECT_EQ(mimo_with_null("attention_value_scale").config.value_factor, 1);
}

TEST(MimoV2Flash, sinks_are_where_config_json_says) {
  const ModelConfig config =
      mimo({{"add_full_attention_sink_bias", true}, {"add_swa_attention_sink_bias", false}}).config;
  EXPECT_TRUE(config.of_layer(0).attention_sinks);
  EXPECT_FALSE(config.of_layer(1).attention_sinks);
}

TEST(MimoV2Flash, kinds_of_layers_are_those_of_config_json_or_of_the_release) {
  EXPECT_EQ(block_kinds(mimo().config), "FSSF");
  EXPECT_EQ(mimo().config.layers,
            (std::vector{MlpKind::kDense, MlpKind::kMoe, MlpKind::kDense, MlpKind::kMoe}));
  const ModelConfig usual =
      mimo({{"num_hidden_layers", 7}, {"hybrid_layer_pattern", nullptr}, {"moe_layer_freq", nullptr}}).config;
  EXPECT_EQ(block_kinds(usual), "FSSSSFS");
  EXPECT_EQ(usual.moe_layer_count(), 6);
  const json types{"full_attention", "sliding_attention", "sliding_attention", "full_attention"};
  const json mlps{"dense", "sparse", "dense", "sparse"};
  EXPECT_EQ(block_kinds(mimo({{"layer_types", types}, {"hybrid_layer_pattern", nullptr}}).config), "FSSF");
  EXPECT_EQ(mimo({{"mlp_layer_types", mlps}, {"moe_layer_freq", nullptr}}).config.moe_layer_count(), 2);
  EXPECT_EQ(block_kinds(mimo({{"layer_types", types}, {"mlp_layer_types", mlps}}).config), "FSSF");
  expect_mimo_refused({{"layer_types", types}, {"hybrid_layer_pattern", {0, 1, 1, 1}}},
                      {"hybrid_layer_pattern", "layer_types"});
  expect_mimo_refused({{"mlp_layer_types", mlps}, {"moe_layer_freq", {0, 1, 1, 1}}},
                      {"moe_layer_freq", "mlp_layer_types"});
  expect_mimo_refused({{"hybrid_layer_pattern", {0, 1, 2, 0}}},
                      {"hybrid_layer_pattern", "0 or 1", "4 layers"});
  expect_mimo_refused({{"moe_layer_freq", {0, 1}}}, {"moe_layer_freq", "4 layers"});
}

TEST(MimoV2Flash, the_window_is_sliding_window_size_earlier_tokens_and_a_token_itself) {
  EXPECT_EQ(mimo().config.sliding_window, 129);
  EXPECT_EQ(mimo({{"sliding_window", 129}}).config.sliding_window, 129);
  EXPECT_EQ(mimo({{"sliding_window_size", nullptr}}).config.sliding_window, 128);
  EXPECT_EQ(mimo({{"sliding_window_size", nullptr}, {"sliding_window", nullptr}}).config.sliding_window, 129);
  expect_mimo_refused({{"sliding_window", 127}}, {"sliding_window", "found 127", "128 or 129"});
}

TEST(MimoV2Flash, kinds_of_layers_turn_a_third_of_a_head_by_a_theta_each) {
  const auto expect_thetas = [](const ModelConfig& config, double full, double sliding) {
    EXPECT_EQ(config.rotary_of(AttentionKind::kFull).theta, full);
    EXPECT_EQ(config.rotary_of(AttentionKind::kSliding).theta, sliding);
    EXPECT_EQ(config.rotary_of(AttentionKind::kFull).dim, 64);
    EXPECT_EQ(config.rotary_of(AttentionKind::kSliding).dim, 64);
  };
  expect_thetas(mimo().config, 5e6, 1e4);
  expect_thetas(mimo({{"rope_theta", 2e6}, {"swa_rope_theta", 3e4}}).config, 2e6, 3e4);
  const json saved = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 2e6}}},
                      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 3e4}}}};
  const json none = {
      {"rope_theta", nullptr}, {"swa_rope_theta", nullptr}, {"partial_rotary_factor", nullptr}};
  json changes = none;
  changes["rope_parameters"] = saved;
  expect_thetas(mimo(changes).config, 2e6, 3e4);
  expect_mimo_refused({{"rope_parameters", saved}}, {"rope_theta", "5000000", "rope_parameters"});
  expect_mimo_refused({{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}, {"rope_scaling", "none"});
}

TEST(MimoV2Flash, keys_beside_rope_parameters_must_agree_with_them_if_they_are_there) {
  const auto settings = [](double theta) {
    return json{{"rope_theta", theta}, {"partial_rotary_factor", 0.5}};
  };
  json changes = {{"head_dim", 16},
                  {"swa_head_dim", 16},
                  {"rope_theta", nullptr},
                  {"swa_rope_theta", nullptr},
                  {"partial_rotary_factor", nullptr}};
  expect_mimo_refused(changes, {"config.json: partial_rotary_factor", "even part of head_dim = 16"});
  changes["rope_parameters"] = {{"full_attention", settings(2e6)}, {"sliding_attention", settings(3e4)}};
  EXPECT_EQ(mimo(changes).config.rotary, (RotaryConfig{.dim = 8, .theta = 2e6}));
  changes["rope_theta"] = 2e6;
  EXPECT_EQ(mimo(changes).config.sliding_rotary, (RotaryConfig{.dim = 8, .theta = 3e4}));
  changes["swa_rope_theta"] = 1e4;
  expect_mimo_refused(changes, {"swa_rope_theta", "rope_parameters says"});
  changes["swa_rope_theta"] = nullptr;
  changes["partial_rotary_factor"] = 0.25;
  expect_mimo_refused(changes, {"partial_rotary_factor", "found 0.25", "rope_parameters says"});
}

TEST(MimoV2Flash, checkpoints_call_sinks_attention_sink_bias_and_hold_layers_that_predict_further_tokens) {
  const ModelDescription model = mimo();
  const KeyMap keys(model.manifest);
  std::set<std::string> names;
  for (const PublishedTensor& tensor : keys.published(ExpertLayout::kPerExpert)) names.insert(tensor.name);
  EXPECT_TRUE(names.contains("model.layers.1.self_attn.attention_sink_bias"));
  EXPECT_FALSE(names.contains("model.layers.0.self_attn.attention_sink_bias"));
  EXPECT_TRUE(names.contains("model.layers.1.mlp.gate.e_score_correction_bias"));
  for (const std::string& name : names)
    EXPECT_TRUE(std::holds_alternative<KeyTarget>(keys.resolve(name))) << name;
  EXPECT_TRUE(
      std::holds_alternative<IgnoredKey>(keys.resolve("model.mtp.layers.0.self_attn.attention_sink_bias")));
}

TEST(MimoV2Flash, norms_have_layernorm_epsilon) {
  EXPECT_EQ(mimo({{"layernorm_epsilon", 1e-3}}).config.rms_norm_eps, 1e-3);
  EXPECT_EQ(mimo({{"layernorm_epsilon", nullptr}, {"rms_norm_eps", 1e-4}}).config.rms_norm_eps, 1e-4);
  EXPECT_EQ(mimo({{"layernorm_epsilon", nullptr}}).config.rms_norm_eps, 1e-5);
  expect_mimo_refused({{"rms_norm_eps", 1e-4}}, {"rms_norm_eps", "layernorm_epsilon"});
}

TEST(MimoV2Flash, the_router_is_that_of_deepseek_v3_with_a_scale_that_may_be_null) {
  const RouterConfig router = mimo().config.router;
  EXPECT_EQ(router.score, RouterScore::kSigmoid);
  EXPECT_TRUE(router.normalize && router.has_correction_bias);
  EXPECT_EQ(router.scale, 1);
  EXPECT_EQ(mimo({{"routed_scaling_factor", 2.5}}).config.router.scale, 2.5);
  EXPECT_EQ(mimo().config.shared_expert_intermediate_size, 0);
}

TEST(MimoV2Flash, settings_that_no_block_computes_are_refused) {
  expect_mimo_refused({{"n_shared_experts", 1}}, {"n_shared_experts", "found 1", "null or 0"});
  expect_mimo_refused({{"attention_projection_layout", "fused_qkv"}},
                      {"attention_projection_layout", "split"});
  expect_mimo_refused({{"scoring_func", "softmax"}}, {"scoring_func", "sigmoid"});
  expect_mimo_refused({{"hybrid_layer_pattern", nullptr}, {"hybrid_block_size", 6}},
                      {"hybrid_block_size", "null"});
  expect_mimo_refused({{"attention_chunk_size", 64}}, {"attention_chunk_size", "found 64", "128 or 129"});
  expect_mimo_refused({{"swa_num_key_value_heads", 7}}, {"swa_num_key_value_heads", "found 7", "64"});
  expect_mimo_refused({{"swa_head_dim", 15}}, {"swa_head_dim", "even"});
  expect_mimo_refused({{"partial_rotary_factor", 0.1}}, {"partial_rotary_factor", "even part"});
  expect_error(ExitCode::kBadData, {"sliding_window"},
               [] { static_cast<void>(mimo_with_null("sliding_window")); });
}

TEST(MimoV2Flash, ranks_agree_on_the_factor_of_values_and_on_heads_with_sinks) {
  std::set<std::string> keys;
  for (const Setting& setting : agreed_settings(mimo().config)) {
    keys.insert(setting.key);
    if (setting.key == "heads by layer") {
      EXPECT_NE(setting.value.find("64/8 x 192, values x 128, sinks"), std::string::npos) << setting.value;
    }
  }
  EXPECT_TRUE(keys.contains("factor of values"));
}

}  // namespace
}  // namespace sluice
