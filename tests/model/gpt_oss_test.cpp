#include "model/families/gpt_oss.hpp"

#include "manifest/key_map.hpp"
#include "model/agreed_settings.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of gpt-oss-20b without its quantization_config, with changes: keys set to null are taken away.
json oss_20b(const json& changes = json::object()) {
  json config = published_config("gpt-oss-20b");
  config.merge_patch(changes);
  return config;
}

TEST(GptOss, has_biases_everywhere_and_sinks) {
  const ModelDescription model = described(oss_20b());
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_proj.bias"), (Shape{4096}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.k_proj.bias"), (Shape{512}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.v_proj.bias"), (Shape{512}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.o_proj.bias"), (Shape{2880}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.sinks"), (Shape{64}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.router.weight"), (Shape{32, 2880}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.router.bias"), (Shape{32}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.experts.gate_up_proj_bias"), (Shape{32, 5760}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.experts.down_proj_bias"), (Shape{32, 2880}));
  const ModelDescription without = described(oss_20b({{"attention_bias", false}}));
  EXPECT_EQ(shape_of(without, "model.layers.0.self_attn.q_proj.bias"), (Shape{-1}));
  EXPECT_EQ(shape_of(without, "model.layers.0.self_attn.o_proj.bias"), (Shape{-1}));
}

TEST(GptOss, experts_are_published_transposed_unless_they_are_codes) {
  const ModelDescription model = described(oss_20b());
  const KeyMap keys(model.manifest);
  const std::string experts = "model.layers.0.mlp.experts.";
  const auto target = [&](const std::string& name, bool quantised) {
    return std::get<KeyTarget>(keys.resolve(experts + name, quantised));
  };
  EXPECT_TRUE(target("down_proj", false).is_transposed);  // a square
  EXPECT_EQ(target("gate_up_proj", false).shape, (Shape{32, 2880, 5760}));
  EXPECT_EQ(target("gate_up_proj", true).shape, (Shape{32, 5760, 2880}));
  EXPECT_FALSE(target("gate_up_proj_bias", false).is_transposed);
}

TEST(GptOss, every_other_layer_sees_a_window) {
  for (const json& config : {oss_20b(), oss_20b({{"layer_types", nullptr}})}) {
    const ModelConfig model = described(config).config;
    EXPECT_EQ(model.attention[0], AttentionKind::kSliding);
    EXPECT_EQ(model.attention[1], AttentionKind::kFull);
    EXPECT_EQ(model.sliding_window, 128);
  }
}

TEST(GptOss, ranks_agree_on_windows_and_limits) {
  const auto settings_of = [](const json& config) {
    std::string text;
    for (const Setting& setting : agreed_settings(described(config).config))
      text += setting.key + "=" + setting.value + "\n";
    return text;
  };
  const std::string settings = settings_of(oss_20b({{"num_hidden_layers", 2}, {"layer_types", nullptr}}));
  for (const json& changes :
       {json{{"sliding_window", 64}}, json{{"layer_types", {"full_attention", "sliding_attention"}}},
        json{{"swiglu_limit", 6.0}}, json{{"swiglu_alpha", 1.0}}}) {
    json config = oss_20b({{"num_hidden_layers", 2}, {"layer_types", nullptr}});
    config.merge_patch(changes);
    EXPECT_NE(settings_of(config), settings) << changes;
  }
}

TEST(GptOss, ranks_agree_on_the_order_of_gate_and_up) {
  ModelConfig config = described(oss_20b()).config;
  EXPECT_EQ(config.gate_up_order, GateUpOrder::kInterleaved);
  const std::size_t interleaved = agreed_settings(config).size();
  config.gate_up_order = GateUpOrder::kHalves;
  EXPECT_EQ(agreed_settings(config).size() + 1, interleaved);
}

TEST(GptOss, yarn_blends_between_pairs_that_are_no_whole_numbers) {
  for (const json& config : {oss_20b(), oss_20b({{"rope_scaling", nullptr}, {"rope_theta", nullptr}})}) {
    const RotaryConfig rotary = described(config).config.rotary;
    EXPECT_EQ(rotary.scaling, RotaryScaling::kYarn);
    EXPECT_EQ(rotary.theta, 150000);
    EXPECT_NEAR(rotary.magnitude, 1.3465735902799727, 1e-12);
    EXPECT_NEAR(rotary.blend_begin, 8.0927791155, 1e-9);
    EXPECT_NEAR(rotary.blend_end, 17.3980245016, 1e-9);
  }
}

TEST(GptOss, absent_keys_have_transformers_defaults) {
  const ModelConfig config = described(oss_20b({{"attention_bias", nullptr},
                                                {"head_dim", nullptr},
                                                {"num_key_value_heads", nullptr},
                                                {"rms_norm_eps", nullptr},
                                                {"sliding_window", nullptr},
                                                {"swiglu_limit", nullptr}}))
                                 .config;
  EXPECT_TRUE(config.attention_bias && config.attention_output_bias && config.attention_sinks);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.key_value_heads, 8);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.sliding_window, 128);
  EXPECT_EQ(config.swiglu_limits.experts, 7.0);
  EXPECT_EQ(config.swiglu_slope, 1.702);
}

TEST(GptOss, what_would_be_computed_wrongly_is_refused) {
  const auto expect_refused = [](const json& changes, const std::vector<std::string>& parts) {
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(described(oss_20b(changes))); });
  };
  expect_refused({{"layer_types", {"full_attention"}}}, {"layer_types", "num_hidden_layers = 24"});
  expect_refused({{"num_hidden_layers", 1}, {"layer_types", {"chunked_attention"}}},
                 {"layer_types", "chunked_attention", "'sliding_attention'"});
  expect_refused({{"experts_per_token", 2}}, {"experts_per_token", "found 2", "num_experts_per_tok = 4"});
  expect_refused({{"hidden_act", "gelu"}}, {"hidden_act", "gelu", "'silu'"});
  expect_refused({{"swiglu_limit", 0.0}}, {"swiglu_limit", "found 0"});
  expect_refused({{"attention_dropout", 0.1}}, {"attention_dropout", "found 0.1"});
  expect_refused({{"sliding_window", 0}}, {"sliding_window", "found 0"});
  json no_window = oss_20b();
  no_window["sliding_window"] = nullptr;
  expect_error(ExitCode::kBadData, {"sliding_window", "found null"},
               [&] { static_cast<void>(described(no_window)); });
}

}  // namespace
}  // namespace sluice
