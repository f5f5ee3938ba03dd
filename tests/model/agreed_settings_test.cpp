#include "model/agreed_settings.hpp"

#include "model/architecture.hpp"
#include "model/blocks/layer_blocks.hpp"
#include "model/config_text.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>

namespace sluice {
namespace {

using nlohmann::json;

ModelConfig config_of(const json& changes) {
  return describe_model_text(test::config_with(changes), "config.json", DType::kBFloat16).config;
}

/// A line for each setting.
std::string text_of(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& setting : settings) text += setting.key + " = " + setting.value + "\n";
  return text;
}

std::string agreed_text(const json& changes = json::object()) {
  return text_of(agreed_settings(config_of(changes)));
}

TEST(AgreedSettings, are_those_of_the_model_and_of_every_block_in_an_order_that_stays) {
  EXPECT_EQ(agreed_text(test::hybrid_changes()),
            "model_type = qwen3_5_moe_text\n"
            "dtype = bfloat16\n"
            "num_attention_heads = 4\n"
            "num_key_value_heads = 2\n"
            "head_dim = 8\n"
            "pad_token_id = -1\n"
            "rms_norm_eps = 1e-06\n"
            "query_key_norm = per head\n"
            "rope_theta = 10000\n"
            "rope_scaling = none\n"
            "rope_interleave = false\n"
            "initializer_range = 0.2\n"
            "linear_num_key_heads = 2\n"
            "linear_num_value_heads = 4\n"
            "num_experts_per_tok = 2\n"
            "norm_topk_prob = true\n");
}

TEST(AgreedSettings, leave_out_no_block) {
  const ModelConfig config = config_of(test::hybrid_changes());
  const std::string all = text_of(agreed_settings(config));
  for (const LayerBlock& block : layer_blocks())
    EXPECT_NE(all.find(text_of(block.settings(config))), std::string::npos) << block.name;
}

TEST(AgreedSettings, differ_with_whatever_changes_numbers_and_no_shape) {
  const json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}};
  for (const json& change :
       {json{{"rms_norm_eps", 1e-5}}, json{{"rope_theta", 2e4}}, json{{"pad_token_id", 3}},
        json{{"rope_scaling", yarn}}, json{{"num_experts_per_tok", 3}}, json{{"norm_topk_prob", false}},
        json{{"initializer_range", 0.1}}})
    EXPECT_NE(agreed_text(change), agreed_text()) << change;
}

TEST(AgreedSettings, tell_the_limits_of_mlps_by_layer_where_there_are_any) {
  ModelConfig config = config_of(json::object());
  EXPECT_EQ(text_of(agreed_settings(config)).find("limit"), std::string::npos);
  config.swiglu_clamp = SwigluClamp::kSilu;
  config.limits_by_layer = {{}, {.experts = 4, .shared_expert = 5}};
  const std::string text = text_of(agreed_settings(config));
  EXPECT_NE(text.find("swiglu_limit = 0, 4/5/0\nclamp of MLPs = behind silu\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace sluice
