// What a config.json may do to us: say it, and end.
#include "model/architecture.hpp"
#include "model/config_text.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

using nlohmann::json;
using test::config_with;

void expect_refused(const std::string& text, std::vector<std::string> parts) {
  SCOPED_TRACE(text.substr(0, 200));
  parts.push_back("models/x/config.json: ");
  test::expect_error(ExitCode::kBadData, parts, [&] {
    static_cast<void>(describe_model_text(text, "models/x/config.json", DType::kBFloat16));
  });
}

/// A config whose `key` is the JSON text `value`; json itself could not hold every one of them.
std::string with_raw(const std::string& key, const std::string& value) {
  const std::string text = config_with({{key, nullptr}});
  return text.substr(0, text.size() - 1) + ",\"" + key + "\":" + value + "}";
}

TEST(HostileConfig, file_that_is_not_there_is_named) {
  const test::TemporaryDirectory directory;
  test::expect_error(ExitCode::kBadData, {(directory / "config.json").string()},
                     [&] { static_cast<void>(describe_model(directory / "", DType::kBFloat16)); });
}

TEST(HostileConfig, text_that_is_no_json_object) {
  const std::string whole = config_with();
  expect_refused("", {"not valid JSON", "cut short"});
  expect_refused(whole.substr(0, whole.size() / 2), {"not valid JSON", "cut short"});
  expect_refused(whole + "}", {"not valid JSON"});
  expect_refused("{\"model_type\": \"\xff\"}", {"not valid JSON"});
  expect_refused("[1, 2]", {"array", "expected an object"});
  expect_refused("null", {"null", "expected an object"});
}

TEST(HostileConfig, numbers_that_python_writes_by_name_harm_only_where_they_are_read) {
  for (const char* value : {"NaN", "Infinity", "-Infinity", "[1, NaN]", "{\"a\": -Infinity}"}) {
    EXPECT_NO_THROW(static_cast<void>(
        describe_model_text(with_raw("router_z_loss", value), "config.json", DType::kBFloat16)));
    for (const char* key : {"rope_theta", "rms_norm_eps", "hidden_size", "tie_word_embeddings"})
      expect_refused(with_raw(key, value), {key, "found", "expected"});
  }
  expect_refused(with_raw("rope_theta", "NaN"), {"rope_theta: found NaN"});
  expect_refused(with_raw("hidden_size", "-Infinity"), {"hidden_size: found -Infinity"});
}

TEST(HostileConfig, values_nested_without_end) {
  for (const std::string open : {"[", "{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += open;
    expect_refused(deep, {"nested deeper than 64"});
    expect_refused(with_raw("hidden_size", deep), {"nested deeper than 64"});
  }
  const std::string closed = std::string(100'000, '[') + std::string(100'000, ']');
  expect_refused(with_raw("hidden_size", closed), {"nested deeper than 64"});
  expect_refused(with_raw("hidden_size", std::string(40, '[') + std::string(40, ']')),
                 {"hidden_size", "found [[[[", "expected an integer"});
}

TEST(HostileConfig, missing_keys_are_named) {
  for (const char* key :
       {"model_type", "vocab_size", "hidden_size", "num_attention_heads", "intermediate_size",
        "num_hidden_layers", "num_experts", "num_experts_per_tok", "moe_intermediate_size"})
    expect_refused(config_with({{key, nullptr}}), {std::string("'") + key + "' is missing"});
}

TEST(HostileConfig, sizes_are_positive_integers_of_31_bits) {
  for (const char* value : {"\"24\"", "24.0", "1e3", "-24", "0", "true", "[24]", "{}", "2147483648",
                            "9223372036854775808", "18446744073709551616"})
    for (const char* key :
         {"vocab_size", "hidden_size", "num_attention_heads", "moe_intermediate_size", "head_dim"})
      expect_refused(with_raw(key, value), {key, "found ", "from 1 to 2147483647"});
}

TEST(HostileConfig, other_values_have_their_kinds) {
  expect_refused(config_with({{"rms_norm_eps", "small"}}), {"rms_norm_eps", "\"small\"", "a number"});
  expect_refused(config_with({{"rms_norm_eps", 0}}), {"rms_norm_eps", "found 0", "above 0"});
  expect_refused(config_with({{"rope_theta", -1}}), {"rope_theta", "found -1", "above 0"});
  expect_refused(with_raw("rope_theta", "1e999"), {"not valid JSON", "1e999"});
  expect_refused(config_with({{"norm_topk_prob", 1}}), {"norm_topk_prob", "found 1", "true or false"});
  expect_refused(config_with({{"model_type", 3}}), {"model_type", "found 3", "a text"});
  expect_refused(config_with({{"rope_parameters", 3}}), {"rope_parameters", "found 3", "an object"});
  expect_refused(config_with({{"num_hidden_layers", 10'001}}), {"num_hidden_layers", "to 10000"});
  expect_refused(config_with({{"num_experts", 65'537}}), {"num_experts", "to 65536"});
}

TEST(HostileConfig, layer_lists_hold_indices_of_layers) {
  for (const json& list : {json("1"), json{1.5}, json{"1"}, json{-1}, json{2}})
    expect_refused(config_with({{"mlp_only_layers", list}}), {"mlp_only_layers", "found " + list.dump()});
  expect_refused(with_raw("mlp_only_layers", "[18446744073709551615]"), {"mlp_only_layers"});
  expect_refused(config_with({{"decoder_sparse_step", 0}}), {"decoder_sparse_step", "found 0"});
}

TEST(HostileConfig, sizes_that_contradict_each_other) {
  expect_refused(config_with({{"num_experts_per_tok", 6}}), {"num_experts_per_tok", "found 6", "experts, 5"});
  expect_refused(config_with({{"pad_token_id", 29}}), {"pad_token_id", "found 29", "from -29 to 28"});
  expect_refused(config_with({{"num_key_value_heads", 3}}),
                 {"num_key_value_heads", "found 3", "divisor of num_attention_heads = 4"});
  expect_refused(config_with({{"num_key_value_heads", nullptr}, {"num_attention_heads", 6}}),
                 {"num_key_value_heads", "found nothing", "num_attention_heads = 6; the default is 4"});
  expect_refused(with_raw("num_key_value_heads", "null"),
                 {"num_key_value_heads", "found null", "an integer"});
  expect_refused(config_with({{"head_dim", 9}}), {"head_dim", "found 9", "an even number"});
  expect_refused(config_with({{"head_dim", nullptr}, {"hidden_size", 3}}),
                 {"head_dim", "found nothing", "an even number above 0"});
}

TEST(HostileConfig, what_would_be_computed_wrongly_is_refused) {
  expect_refused(config_with({{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}),
                 {"partial_rotary_factor", "0.5"});
  expect_refused(config_with({{"use_sliding_window", true}}), {"use_sliding_window", "true", "false"});
  expect_refused(config_with({{"attention_bias", true}}), {"attention_bias", "true", "false"});
  expect_refused(config_with({{"attention_dropout", 0.1}}), {"attention_dropout", "0.1"});
  expect_refused(config_with({{"hidden_act", "gelu"}}), {"hidden_act", "\"gelu\"", "'silu'"});
}

TEST(HostileConfig, quantized_checkpoints_of_a_method_that_is_not_read_are_refused_by_it) {
  expect_refused(config_with({{"quantization_config", {{"bits", 4}, {"quant_method", "gptq"}}}}),
                 {"quantization_config: quant_method", "found \"gptq\"", "no quantization_config"});
  expect_refused(config_with({{"quantization_config", {{"load_in_8bit", true}}}}),
                 {"quantization_config: load_in_8bit", "found true", "bitsandbytes"});
  for (const char* method : {"awq", "bitsandbytes", "gguf"})
    expect_refused(config_with({{"quantization_config", {{"quant_method", method}}}}),
                   {"quant_method", method, "'fp8', 'mxfp8', 'compressed-tensors', 'modelopt', 'mxfp4'",
                    "turn them back into bfloat16"});
  expect_refused(config_with({{"quantization_config", "fp8"}}), {"quantization_config", "found \"fp8\""});
  const auto compressed = [](const json& group, const char* format = "pack-quantized") {
    return config_with({{"quantization_config",
                         {{"quant_method", "compressed-tensors"},
                          {"format", format},
                          {"config_groups", {{"group_0", group}}}}}});
  };
  const json int4 = {{"num_bits", 4}, {"type", "int"}};
  const auto with = [&](const char* key, const json& value) {
    json weights = int4;
    weights[key] = value;
    return json{{"weights", weights}};
  };
  expect_refused(config_with({{"quantization_config", {{"quant_method", "fp8"}, {"fmt", "e5m2"}}}}),
                 {"fmt", "e5m2", "e4m3"});
  expect_refused(
      config_with({{"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128}}}}}),
      {"weight_block_size", "[128]", "two integers"});
  expect_refused(compressed(with("symmetric", false)), {"group_0: weights: symmetric", "zero points"});
  expect_refused(compressed(with("actorder", "random")), {"weights: actorder", "random", "'static'"});
  expect_refused(compressed(with("num_bits", 8)),
                 {"num_bits", "found 8", "bfloat16, FP8, INT4, MXFP4 or NVFP4"});
  expect_refused(compressed({{"weights", int4}, {"input_activations", {{"num_bits", 8}, {"type", "int"}}}}),
                 {"input_activations: type", "int8 activations"});
  expect_refused(compressed({{"weights", int4}}, "marlin-24"),
                 {"format", "marlin-24", "'pack-quantized' (INT4)", "nvfp4"});
  expect_refused(
      config_with({{"quantization_config", {{"quant_method", "modelopt"}, {"quant_algo", "W4A8_AWQ"}}}}),
      {"quant_algo", "W4A8_AWQ", "'FP8', 'NVFP4'", "'MIXED_PRECISION'"});
  json sparse = json::parse(compressed({{"weights", int4}}));
  sparse["quantization_config"]["sparsity_config"] = {{"format", "sparse-24-bitmask"}};
  expect_refused(sparse.dump(),
                 {"sparsity_config: format", "sparse-24-bitmask", "sparse weights", "bfloat16"});
  EXPECT_NO_THROW(static_cast<void>(
      describe_model_text(compressed({{"weights", int4}}), "config.json", DType::kBFloat16)));
  EXPECT_NO_THROW(static_cast<void>(describe_model_text(
      config_with(
          {{"quantization_config",
            {{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"model.embed_tokens", "lm_head"}}}}}),
      "config.json", DType::kBFloat16)));
  EXPECT_NO_THROW(static_cast<void>(
      describe_model_text(with_raw("quantization_config", "null"), "config.json", DType::kBFloat16)));
}

TEST(HostileConfig, transforms_of_weights_load_and_those_while_the_model_runs_are_refused_by_their_place) {
  const auto transformed = [](const json& apply, const char* key = "quantization_config") {
    const json groups = {{"R1", {{"type", "hadamard"}, {"apply", apply}}}};
    return config_with(
        {{key, {{"quant_method", "compressed-tensors"}, {"transform_config", {{"config_groups", groups}}}}}});
  };
  const auto at = [](const json& location) {
    return json{{"targets", {"Linear"}}, {"location", location}, {"inverse", true}};
  };
  const auto describe = [](const std::string& text) {
    static_cast<void>(describe_model_text(text, "config.json", DType::kBFloat16));
  };
  EXPECT_NO_THROW(describe(transformed({at("weight_input"), at("weight_output")})));
  EXPECT_NO_THROW(describe(transformed(json::array())));
  EXPECT_NO_THROW(describe(transformed(nullptr)));
  for (const char* key : {"quantization_config", "compression_config"})
    for (const char* location : {"input", "output", "q_attn", "k_cache", "embed_output"})
      expect_refused(transformed({at("weight_input"), at(location)}, key),
                     {key, "transform_config: config_groups: R1: apply[1]: location", location});
  expect_refused(transformed(json::array({at(nullptr)})), {"apply[0]: location", "found null"});
  expect_refused(config_with({{"quantization_config",
                               {{"quant_method", "fp8"}, {"transform_config", {{"groups", {1}}}}}}}),
                 {"transform_config: groups", "config_groups"});
}

TEST(HostileConfig, keys_of_quantised_weights_that_change_a_forward_pass_are_refused) {
  const auto with = [](json quantization) {
    return config_with({{"quantization_config", std::move(quantization)}});
  };
  const auto group = [&](json members) {
    return with({{"quant_method", "compressed-tensors"}, {"config_groups", {{"g", std::move(members)}}}});
  };
  const json fp8 = {{"num_bits", 8}, {"type", "float"}};
  const json int4 = {{"num_bits", 4}};
  expect_refused(group({{"weights", fp8}, {"output_activations", {{"num_bits", 8}}}}),
                 {"g: output_activations: type", "int8 activations"});
  expect_refused(group({{"weights", int4}, {"format", "marlin-24"}}), {"g: format", "marlin-24"});
  json uneven = fp8;
  uneven["symmetric"] = false;
  expect_refused(group({{"weights", uneven}}), {"symmetric", "zero points"});
  expect_refused(with({{"quant_method", "fp8"}, {"expert_dtype", "fp4"}}), {"expert_dtype", "fp4"});
  expect_refused(
      with({{"quant_method", "compressed-tensors"}, {"moe_sparsity_config", {{"method", "novice"}}}}),
      {"moe_sparsity_config: method", "novice"});
  expect_refused(with({{"quant_method", "compressed-tensors"}, {"config_groups", {{"W4A8", {"Linear"}}}}}),
                 {"config_groups: W4A8"});
  for (const char* algorithm : {"NVFP4_AWQ", "W4A8_AWQ", "W4A16_AWQ", "NVFP4_SVD", "W8A8_SQ_PER_CHANNEL", ""})
    for (const char* key : {"quantization", "quantized_layers"}) {
      const json named = {{"quant_algo", algorithm}};
      expect_refused(
          with({{"quant_method", "modelopt"},
                {key, std::string(key) == "quantization" ? named : json{{"model.layers.0.a", named}}}}),
          {key, "quant_algo", algorithm});
    }
  expect_refused(with({{"quant_algo", "NVFP4"}, {"pre_quant_scale", true}}), {"pre_quant_scale"});
}

TEST(HostileConfig, forms_of_quantised_weights_in_any_spelling_are_read) {
  for (
      const char* text :
      {R"({"quant_method": "compressed-tensors", "config_groups": {"W4A16": ["Linear"], "fp8_dynamic": ["lm_head"]}})",
       R"({"quant_method": "compressed-tensors", "quantization_config": {"config_groups": {"g": {"weights": {"num_bits": 4}}}}})",
       R"({"config_groups": {"g": {"weights": {"num_bits": 4, "actorder": "group"}, "targets": "Linear"}}})",
       R"({"quant_method": "modelopt_fp4", "quant_algo": "nvfp4", "exclude_modules": null})",
       R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {
            "model.layers.0.a": {"quant_algo": "FP8"}, "model.layers.0.b": {"quant_algo": "W4A16_NVFP4", "group_size": 16}}}})",
       R"({"quant_algo": "FP8_PB_WO"})", R"({"quant_algo": null})", R"({"activation_scheme": "dynamic"})",
       R"({"bits": 4})"})
    for (const char* key : {"quantization_config", "compression_config"}) {
      const auto described = describe_model_text(with_raw(key, text), "config.json", DType::kBFloat16);
      EXPECT_TRUE(described.config.quantized) << text;
      EXPECT_TRUE(described.config.unknown_keys.empty()) << text;
    }
  const auto plain =
      describe_model_text(with_raw("quantization_config", "{}"), "config.json", DType::kBFloat16);
  EXPECT_FALSE(plain.config.quantized);
}

TEST(HostileConfig, keys_that_nothing_here_knows_are_named) {
  const auto unknown = [](const std::string& text) {
    return describe_model_text(text, "config.json", DType::kBFloat16).config.unknown_keys;
  };
  EXPECT_EQ(unknown(config_with()), std::vector<std::string>{});
  EXPECT_EQ(unknown(config_with({{"bos_token_id", 1}, {"hyper_connections", 4}, {"altup", true}})),
            (std::vector<std::string>{"altup", "hyper_connections"}));
  EXPECT_EQ(unknown(config_with({{"moe_layer_offset", 1}, {"attention_chunk_size", 8}})),
            (std::vector<std::string>{"attention_chunk_size", "moe_layer_offset"}));
  json text = json::parse(config_with(test::hybrid_changes()));
  text["hyper_connections"] = 4;
  EXPECT_EQ(unknown(json{
                {"model_type", "qwen3_5_moe"},
                {"text_config", text},
                {"vision_config", json::object()},
                {"altup",
                 1}}.dump()),
            (std::vector<std::string>{"altup", "hyper_connections"}));
}

TEST(HostileConfig, unknown_architectures_are_told_what_is_known) {
  expect_refused(config_with({{"model_type", "llama\n"}}), {"llama\\x0a", "qwen3, qwen3_moe, qwen3_5, "});
  expect_refused(config_with({{"model_type", "glm5_next"}}), {"glm5_next", "residual streams"});
}

TEST(HostileConfig, products_of_sizes_that_overflow) {
  constexpr std::int64_t kHuge = (std::int64_t{1} << 31) - 1;
  expect_refused(
      config_with({{"num_experts", 65'536}, {"hidden_size", kHuge}, {"moe_intermediate_size", kHuge}}),
      {"model.", "2147483647", "larger than 2^48 elements"});
  expect_refused(
      config_with({{"num_attention_heads", kHuge}, {"num_key_value_heads", kHuge}, {"head_dim", kHuge - 1}}),
      {"q_proj", "larger than 2^48 elements"});
  expect_refused(config_with({{"vocab_size", kHuge}, {"hidden_size", 100'000}}),
                 {"lm_head", "larger than 2^48 elements"});
}

}  // namespace
}  // namespace sluice
