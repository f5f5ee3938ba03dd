#include "adapter/peft_config.hpp"

#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <nlohmann/json.hpp>

namespace sluice {
namespace {

using nlohmann::json;
using test::expect_error;

json minimal() {
  return {{"peft_type", "LORA"}, {"r", 4}, {"lora_alpha", 8}, {"target_modules", {"q_proj"}}};
}

PeftConfig parse(const json& config) { return parse_peft_config(config.dump(), "adapter_config.json"); }

/// The key at fault, and what else must be said.
void expect_refusal(const std::string& key, const json& value, const std::string& because) {
  json config = minimal();
  config[key] = value;
  expect_error(ExitCode::kBadData, {"adapter_config.json", key, because},
               [&] { static_cast<void>(parse(config)); });
}

TEST(PeftConfig, what_is_left_out_is_as_peft_has_it) {
  const PeftConfig config = parse({{"peft_type", "LORA"}});
  EXPECT_EQ(config.rank, 8);
  EXPECT_EQ(config.alpha, 8);
  EXPECT_FALSE(config.rslora);
  EXPECT_EQ(config.dropout, 0);
}

TEST(PeftConfig, patterns_keep_the_order_of_the_file) {
  const PeftConfig config = parse_peft_config(
      R"({"peft_type": "LORA", "rank_pattern": {"z": 1, "a": 2, "m": 3}, "alpha_pattern": {"b": 0.5}})",
      "it");
  ASSERT_EQ(config.rank_pattern.size(), 3U);
  EXPECT_EQ(config.rank_pattern[0].first, "z");
  EXPECT_EQ(config.rank_pattern[1].first, "a");
  EXPECT_EQ(config.alpha_pattern[0].second, 0.5);
}

TEST(PeftConfig, numbers_that_python_writes_by_name_harm_only_where_they_are_read) {
  const auto with = [](const std::string& members) {
    return parse_peft_config(R"({"peft_type": "LORA", )" + members + "}", "adapter_config.json");
  };
  EXPECT_EQ(with(R"("eva_config": {"rho": NaN}, "r": 4)").rank, 4);
  expect_error(ExitCode::kBadData, {"adapter_config.json", "lora_alpha", "NaN"},
               [&] { static_cast<void>(with(R"("lora_alpha": NaN)")); });
  expect_error(ExitCode::kBadData, {"adapter_config.json", "alpha_pattern", "Infinity"},
               [&] { static_cast<void>(with(R"("alpha_pattern": {"x": Infinity})")); });
}

TEST(PeftConfig, only_versions_before_0_20_read_experts_by_position) {
  for (const char* version : {"0.18.0", "0.19.1", "0.9.2", "0.18.1.dev0"}) {
    json config = minimal();
    config["peft_version"] = version;
    EXPECT_TRUE(parse(config).reads_experts_by_position) << version;
  }
  for (const char* version : {"0.20.0", "0.21.2", "1.0.0"}) {
    json config = minimal();
    config["peft_version"] = version;
    EXPECT_FALSE(parse(config).reads_experts_by_position) << version;
  }
}

TEST(PeftConfig, settings_that_say_nothing_are_no_hindrance) {
  json config = minimal();
  for (const char* key :
       {"modules_to_save", "trainable_token_indices", "velora_config", "a_setting_of_tomorrow"})
    config[key] = nullptr;
  config["use_dora"] = false;
  config["bias"] = "none";
  config["loftq_config"] = json::object();
  config["init_lora_weights"] = "gaussian";
  config["layers_pattern"] = "layers";
  config["ensure_weight_tying"] = true;
  EXPECT_EQ(parse(config).rank, 4);
}

TEST(PeftConfig, refuses_by_name_what_changes_the_meaning) {
  expect_refusal("peft_type", "LOHA", "expected \"LORA\"");
  expect_refusal("use_dora", true, "DoRA");
  expect_refusal("modules_to_save", {"lm_head"}, "trained as a whole");
  expect_refusal("bias", "all", "biases");
  expect_refusal("lora_bias", true, "lora_B");
  expect_refusal("fan_in_fan_out", true, "transposed");
  expect_refusal("trainable_token_indices", {1}, "embedding");
  expect_refusal("layer_replication", {{0, 1}}, "several times");
  expect_refusal("init_lora_weights", "pissa_niter_16", "changes the base weights");
  expect_refusal("layers_pattern", "blocks", "expected \"layers\"");
  expect_refusal("a_setting_of_tomorrow", 1, "not known here");
}

TEST(PeftConfig, refuses_values_of_another_kind) {
  expect_refusal("r", 0, "found 0, expected a rank");
  expect_refusal("r", "4", "expected a rank");
  expect_refusal("lora_alpha", "a", "expected a number");
  expect_refusal("lora_dropout", 1, "expected a share");
  expect_refusal("use_rslora", 1, "expected true or false");
  expect_refusal("target_modules", 5, "a list of texts");
  expect_refusal("target_parameters", "experts", "a list of texts");
  expect_refusal("rank_pattern", {{"q_proj", -1}}, "expected a rank");
  expect_refusal("layers_to_transform", "all", "expected numbers of layers");
}

TEST(PeftConfig, refuses_what_is_no_object) {
  for (const std::string text : {"", "[]", "{", "null"})
    expect_error(ExitCode::kBadData, {"it: "}, [&] { static_cast<void>(parse_peft_config(text, "it")); });
}

TEST(PeftConfig, a_folder_in_a_directory_is_found_unless_there_are_several) {
  const test::TemporaryDirectory directory;
  EXPECT_EQ(find_peft_adapter(directory.path()), directory.path());
  for (const char* name : {"mine", "other", "none"}) std::filesystem::create_directory(directory / name);
  static_cast<void>(directory.write("mine/adapter_config.json", "{}"));
  EXPECT_EQ(find_peft_adapter(directory.path()), directory / "mine");
  static_cast<void>(directory.write("other/adapter_config.json", "{}"));
  expect_error(ExitCode::kBadData, {directory.path().string(), "mine, other"},
               [&] { static_cast<void>(find_peft_adapter(directory.path())); });
  static_cast<void>(directory.write("adapter_config.json", "{}"));
  EXPECT_EQ(find_peft_adapter(directory.path()), directory.path());
}

TEST(PeftConfig, a_model_and_a_name_of_the_hub_are_answered_as_that) {
  const test::TemporaryDirectory directory;
  static_cast<void>(directory.write("config.json", "{}"));
  expect_error(ExitCode::kBadData, {"holds a model", "adapter"},
               [&] { static_cast<void>(read_peft_config(directory.path())); });
  expect_error(ExitCode::kBadData, {"hf download ann/my-adapter"},
               [&] { static_cast<void>(read_peft_config("ann/my-adapter")); });
}

}  // namespace
}  // namespace sluice
