#include "model/architecture.hpp"
#include "model/config_text.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace sluice {
namespace {

using nlohmann::json;
using test::config_with;

RotaryConfig read(const json& changes) {
  return describe_model_text(config_with(changes), "config.json", DType::kBFloat16).config.rotary;
}

/// A head of 16 that was trained on 32 positions, with changes: keys set to null are taken away.
RotaryConfig read_yarn(const json& changes = json::object(), const json& top = json::object()) {
  json scaling = {{"rope_type", "yarn"},   {"factor", 4.0},    {"original_max_position_embeddings", 32},
                  {"rope_theta", 10000.0}, {"beta_fast", 4.0}, {"beta_slow", 0.25}};
  scaling.merge_patch(changes);
  json config = {{"head_dim", 16}, {"max_position_embeddings", 128}, {"rope_parameters", scaling}};
  config.merge_patch(top);
  return read(config);
}

void expect_scaling_refused(const json& scaling, const std::vector<std::string>& parts) {
  SCOPED_TRACE(scaling.dump());
  test::expect_error(ExitCode::kBadData, parts, [&] {
    static_cast<void>(read({{"rope_parameters", scaling}, {"max_position_embeddings", 128}}));
  });
}

TEST(RotaryConfig, without_a_type_nothing_is_scaled) {
  for (const json& changes : {json::object(), json{{"rope_scaling", {{"rope_theta", 10000.0}}}},
                              json{{"rope_parameters", {{"rope_type", "default"}, {"factor", 8.0}}}}}) {
    const RotaryConfig rotary = read(changes);
    EXPECT_EQ(rotary.scaling, RotaryScaling::kNone);
    EXPECT_EQ(rotary.factor, 1);
    EXPECT_EQ(rotary.magnitude, 1);
  }
}

TEST(RotaryConfig, linear_is_a_factor_in_either_spelling) {
  for (const json& changes : {json{{"rope_scaling", {{"type", "linear"}, {"factor", 8.0}}}},
                              json{{"rope_parameters", {{"rope_type", "linear"}, {"factor", 8}}}}}) {
    EXPECT_EQ(read(changes).scaling, RotaryScaling::kLinear);
    EXPECT_EQ(read(changes).factor, 8);
    EXPECT_EQ(read(changes).magnitude, 1);
    EXPECT_EQ(read(changes).theta, 10000);
  }
}

TEST(RotaryConfig, yarn_blends_between_the_pairs_that_turn_often_and_seldom) {
  const RotaryConfig rotary = read_yarn({{"truncate", false}});
  EXPECT_EQ(rotary.scaling, RotaryScaling::kYarn);
  EXPECT_EQ(rotary.factor, 4);
  // How often pair i turns in 32 positions: 32 / (2 pi) 10000^(-2i/16)
  const auto turns = [](double pair) {
    return 32 / (2 * std::acos(-1.0)) * std::pow(10000.0, -2 * pair / 16);
  };
  EXPECT_NEAR(turns(rotary.blend_begin), 4.0, 1e-12);
  EXPECT_NEAR(turns(rotary.blend_end), 0.25, 1e-12);
  EXPECT_EQ(read_yarn().blend_begin, std::floor(rotary.blend_begin));
  EXPECT_EQ(read_yarn().blend_end, std::ceil(rotary.blend_end));
}

TEST(RotaryConfig, yarn_blends_within_the_pairs_there_are) {
  EXPECT_EQ(read_yarn({{"beta_fast", 1000.0}}).blend_begin, 0);
  EXPECT_EQ(read_yarn({{"beta_slow", 1e-9}}).blend_end, 15);
  const RotaryConfig step = read_yarn({{"beta_fast", 1000.0}, {"beta_slow", 100.0}});
  EXPECT_EQ(step.blend_begin, 0);
  EXPECT_LT(step.blend_end, 0);
  EXPECT_EQ(read_yarn({{"beta_fast", 5.0}, {"beta_slow", 5.0}, {"truncate", false}}).blend_end,
            read_yarn({{"beta_fast", 5.0}, {"truncate", false}}).blend_begin + 0.001);
}

TEST(RotaryConfig, yarn_raises_the_magnitude_with_the_length_unless_a_key_says_it) {
  EXPECT_DOUBLE_EQ(read_yarn().magnitude, 0.1 * std::log(4.0) + 1);
  EXPECT_EQ(read_yarn({{"factor", 0.5}}).magnitude, 1);
  EXPECT_EQ(read_yarn({{"attention_factor", 1.5}}).magnitude, 1.5);
  EXPECT_DOUBLE_EQ(read_yarn({{"mscale", 0.7}, {"mscale_all_dim", 0.5}}).magnitude,
                   (0.07 * std::log(4.0) + 1) / (0.05 * std::log(4.0) + 1));
  EXPECT_EQ(read_yarn({{"mscale", 0.7}}).magnitude, read_yarn().magnitude) << "both or neither";
}

TEST(RotaryConfig, the_original_length_may_be_said_in_three_places) {
  const double in_scaling = read_yarn({{"truncate", false}}).blend_begin;
  constexpr const char* kOriginal = "original_max_position_embeddings";
  EXPECT_EQ(read_yarn({{"truncate", false}, {kOriginal, 999}}, {{kOriginal, 32}}).blend_begin, in_scaling);
  EXPECT_EQ(
      read_yarn({{"truncate", false}, {kOriginal, nullptr}}, {{"max_position_embeddings", 32}}).blend_begin,
      in_scaling);
}

TEST(RotaryConfig, an_empty_object_is_as_good_as_none) {
  const json linear = {{"rope_type", "linear"}, {"factor", 8.0}};
  EXPECT_EQ(read({{"rope_parameters", json::object()}, {"rope_scaling", linear}}).factor, 8);
  EXPECT_EQ(read({{"rope_parameters", linear}, {"rope_scaling", json::object()}}).factor, 8);
  EXPECT_EQ(read({{"rope_parameters", json::object()}, {"rope_scaling", json::object()}}).theta, 10000);
}

TEST(RotaryConfig, two_objects_have_to_come_to_the_same) {
  const json parameters = {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 10000.0}};
  const auto read_both = [&](const json& scaling) {
    return read({{"rope_parameters", parameters}, {"rope_scaling", scaling}});
  };
  EXPECT_EQ(read_both({{"type", "linear"}, {"factor", 8}}), read({{"rope_parameters", parameters}}));
  for (const json& scaling :
       {json{{"type", "linear"}, {"factor", 4.0}}, json{{"rope_type", "default"}},
        json{{"type", "linear"}, {"factor", 8.0}, {"rope_theta", 5e6}},
        json{{"type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 32}}})
    test::expect_error(ExitCode::kBadData,
                       {"config.json: rope_scaling: found {", "same embedding as rope_parameters"},
                       [&] { static_cast<void>(read_both(scaling)); });
}

TEST(RotaryConfig, a_theta_that_rope_scaling_would_drop_is_not_dropped_in_silence) {
  const json changes = {{"rope_theta", nullptr},
                        {"rope_parameters", {{"rope_theta", 5e6}}},
                        {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}};
  test::expect_error(ExitCode::kBadData, {"rope_scaling", "linear", "rope_theta included"},
                     [&] { static_cast<void>(read(changes)); });
}

TEST(RotaryConfig, settings_of_some_layers_are_refused) {
  for (const char* key : {"rope_parameters", "rope_scaling"})
    test::expect_error(ExitCode::kBadData,
                       {std::string("config.json: ") + key, "found {\"full_attention\":{", "for all layers"},
                       [&] {
                         static_cast<void>(read({{key, {{"full_attention", {{"rope_theta", 5e6}}}}}}));
                       });
}

TEST(RotaryConfig, llama3_blends_by_turns) {
  json scaling{{"rope_type", "llama3"}, {"factor", 4.0}, {"low_freq_factor", 0.5}, {"high_freq_factor", 2.0}};
  const RotaryConfig rotary = read({{"rope_parameters", scaling}, {"max_position_embeddings", 128}});
  EXPECT_EQ(rotary.scaling, RotaryScaling::kLlama3);
  EXPECT_EQ(rotary.factor, 4);
  EXPECT_EQ(rotary.few_turns, 0.5);
  EXPECT_EQ(rotary.many_turns, 2);
  EXPECT_EQ(rotary.original_length, 128);
  scaling["original_max_position_embeddings"] = 32;
  EXPECT_EQ(read({{"rope_parameters", scaling}}).original_length, 32);
  scaling["high_freq_factor"] = 0.5;
  expect_scaling_refused(scaling, {"high_freq_factor", "found 0.5", "more than low_freq_factor = 0.5"});
  scaling.erase("low_freq_factor");
  expect_scaling_refused(scaling, {"'low_freq_factor' is missing"});
}

TEST(RotaryConfig, other_scalings_are_refused_by_name) {
  for (const char* type : {"dynamic", "longrope", "mrope", "su"}) {
    expect_scaling_refused({{"rope_type", type}, {"factor", 4.0}},
                           {"rope_parameters: rope_type", type, "'default', 'linear', 'yarn'"});
    expect_scaling_refused({{"type", type}}, {"rope_parameters: type", type, "'default', 'linear', 'yarn'"});
  }
  expect_scaling_refused({{"rope_type", "proportional"}, {"factor", 4.0}},
                         {"rope_parameters: rope_type", "proportional"});
  expect_scaling_refused({{"rope_type", 3}}, {"rope_parameters: rope_type", "found 3", "a text"});
}

TEST(RotaryConfig, settings_without_a_meaning_are_refused) {
  expect_scaling_refused({{"rope_type", "linear"}}, {"'factor' is missing"});
  expect_scaling_refused({{"rope_type", "yarn"}}, {"'factor' is missing"});
  expect_scaling_refused({{"rope_type", "linear"}, {"factor", 0}}, {"factor", "found 0", "above 0"});
  const auto yarn_with = [](const char* key, const json& value) {
    return json{{"rope_type", "yarn"}, {"factor", 4.0}, {key, value}};
  };
  expect_scaling_refused(yarn_with("rope_theta", 1.0), {"rope_theta", "found 1", "more than 1"});
  expect_scaling_refused(yarn_with("beta_fast", 0), {"beta_fast", "found 0", "above 0"});
  expect_scaling_refused(yarn_with("beta_slow", 1e-310), {"beta_slow", "found 1e-310", "a number of turns"});
  expect_scaling_refused(yarn_with("attention_factor", -1.0), {"attention_factor", "found -1", "above 0"});
  expect_scaling_refused(yarn_with("original_max_position_embeddings", 0),
                         {"original_max_position_embeddings"});
  expect_scaling_refused({{"rope_type", "yarn"}, {"factor", 4.0}, {"mscale", -9.0}, {"mscale_all_dim", 1.0}},
                         {"mscale", "found -9", "mscale_all_dim = 1"});
}

/// A config in which null stays null.
RotaryConfig read_with_null(const char* key, json config) {
  config[json::json_pointer(key)] = nullptr;
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16).config.rotary;
}

TEST(RotaryConfig, a_share_that_is_null_beside_other_keys_is_the_whole_head) {
  json config = test::small_moe_config();
  config.merge_patch(test::hybrid_changes());
  config["rope_parameters"] = {{"rope_theta", 10000.0}};
  EXPECT_EQ(describe_model_text(config.dump(), "config.json", DType::kBFloat16).config.rotary.dim, 2);
  EXPECT_EQ(read_with_null("/partial_rotary_factor", config).dim, 8);
}

TEST(RotaryConfig, a_null_truncate_does_not_truncate) {
  json config = json::parse(config_with({{"head_dim", 16},
                                         {"max_position_embeddings", 128},
                                         {"rope_parameters", {{"rope_type", "yarn"}, {"factor", 4.0}}}}));
  const RotaryConfig rotary = read_with_null("/rope_parameters/truncate", config);
  config["rope_parameters"]["truncate"] = false;
  EXPECT_EQ(rotary, describe_model_text(config.dump(), "config.json", DType::kBFloat16).config.rotary);
}

TEST(RotaryConfig, null_is_refused_by_the_key_that_has_no_default) {
  const json config = json::parse(config_with(
      {{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 4.0}}}, {"max_position_embeddings", 128}}));
  for (const char* key : {"rope_type", "rope_theta", "factor", "original_max_position_embeddings"}) {
    SCOPED_TRACE(key);
    test::expect_error(ExitCode::kBadData, {key, "null"}, [&] {
      static_cast<void>(read_with_null(("/rope_parameters/" + std::string(key)).c_str(), config));
    });
  }
}

TEST(RotaryConfig, an_empty_object_is_the_plain_embedding_of_a_family_that_scales_by_default) {
  json config = json::parse(config_with({{"model_type", "gpt_oss"}, {"num_experts_per_tok", 2}}));
  config.erase("rope_theta");
  const auto read_rotary = [&] {
    return describe_model_text(config.dump(), "config.json", DType::kBFloat16).config.rotary;
  };
  EXPECT_EQ(read_rotary().scaling, RotaryScaling::kYarn);
  config["rope_parameters"] = json::object();
  EXPECT_EQ(read_rotary().scaling, RotaryScaling::kNone);
  EXPECT_EQ(read_rotary().theta, 150000);
}

}  // namespace
}  // namespace sluice
