#include "model/families/qwen3_5.hpp"

#include "manifest/key_map.hpp"
#include "model/architecture.hpp"
#include "model/shape_of.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace sluice {
namespace {

using nlohmann::json;
using test::Shape;
using test::shape_of;

ModelDescription describe(const json& config) {
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

/// A mixture of experts of three linear layers and a full one, with changes: keys set to null are taken away.
json text_config(const json& changes = json::object()) {
  json config = json::parse(R"({
    "model_type": "qwen3_5_moe_text", "vocab_size": 29, "hidden_size": 24, "num_hidden_layers": 4,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "partial_rotary_factor": 0.25,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 6,
    "linear_value_head_dim": 10, "linear_conv_kernel_dim": 4, "num_experts": 5, "num_experts_per_tok": 2,
    "moe_intermediate_size": 14, "shared_expert_intermediate_size": 8
  })");
  config.merge_patch(changes);
  return config;
}

json wrapped(const json& changes = json::object()) {
  return {{"model_type", "qwen3_5_moe"},
          {"text_config", text_config(changes)},
          {"vision_config", {{"depth", 2}}}};
}

json dense_config(const json& changes = json::object()) {
  json config = text_config({{"model_type", "qwen3_5_text"},
                             {"intermediate_size", 18},
                             {"num_experts", nullptr},
                             {"moe_intermediate_size", nullptr}});
  config.merge_patch(changes);
  return config;
}

Role role_of(const ModelDescription& model, const std::string& name) {
  return model.manifest[model.manifest.find(name).value()].role;
}

void expect_refused(const json& config, const std::vector<std::string>& parts) {
  test::expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(describe(config)); });
}

TEST(Qwen3_5, a_linear_layer_has_a_gated_delta_net_in_place_of_attention) {
  const ModelDescription model = describe(text_config());
  const std::string layer = "model.layers.0.linear_attn.";
  // 2 x 2 key heads of 6 beside 4 value heads of 10
  EXPECT_EQ(shape_of(model, layer + "in_proj_qkv.weight"), (Shape{64, 24}));
  EXPECT_EQ(shape_of(model, layer + "conv1d.weight"), (Shape{64, 1, 4}));
  EXPECT_EQ(shape_of(model, layer + "in_proj_z.weight"), (Shape{40, 24}));
  EXPECT_EQ(shape_of(model, layer + "in_proj_a.weight"), (Shape{4, 24}));
  EXPECT_EQ(shape_of(model, layer + "in_proj_b.weight"), (Shape{4, 24}));
  EXPECT_EQ(shape_of(model, layer + "out_proj.weight"), (Shape{24, 40}));
  EXPECT_EQ(shape_of(model, layer + "A_log"), (Shape{4}));
  EXPECT_EQ(shape_of(model, layer + "dt_bias"), (Shape{4}));
  EXPECT_EQ(shape_of(model, layer + "norm.weight"), (Shape{10}));
  EXPECT_EQ(role_of(model, layer + "A_log"), Role::kLinearAttention);
  EXPECT_EQ(role_of(model, layer + "norm.weight"), Role::kNorm);
  EXPECT_FALSE(model.manifest.find("model.layers.0.self_attn.q_proj.weight"));
}

TEST(Qwen3_5, a_full_layer_has_a_gate_beside_its_queries) {
  const ModelDescription model = describe(text_config());
  EXPECT_EQ(shape_of(model, "model.layers.3.self_attn.q_proj.weight"), (Shape{2 * 4 * 16, 24}));
  EXPECT_EQ(shape_of(model, "model.layers.3.self_attn.o_proj.weight"), (Shape{24, 4 * 16}));
  EXPECT_FALSE(model.manifest.find("model.layers.3.linear_attn.A_log"));
}

TEST(Qwen3_5, a_quarter_of_each_head_turns) {
  EXPECT_EQ(describe(text_config()).config.rotary.dim, 4);
  EXPECT_EQ(shape_of(describe(text_config()), "model.rotary_emb.inv_freq"), (Shape{2}));
  EXPECT_EQ(describe(text_config({{"partial_rotary_factor", 0.5}})).config.rotary.dim, 8);
  EXPECT_EQ(describe(text_config({{"rope_parameters", {{"partial_rotary_factor", 1.0}}}})).config.rotary.dim,
            16);
}

TEST(Qwen3_5, every_layer_of_the_moe_model_has_a_shared_expert) {
  const ModelDescription model = describe(text_config());
  EXPECT_EQ(model.config.moe_layer_count(), 4);
  for (const char* layer : {"model.layers.0.mlp.", "model.layers.3.mlp."}) {
    EXPECT_EQ(shape_of(model, std::string(layer) + "shared_expert.down_proj.weight"), (Shape{24, 8}));
    EXPECT_EQ(shape_of(model, std::string(layer) + "shared_expert_gate.weight"), (Shape{1, 24}));
    EXPECT_EQ(role_of(model, std::string(layer) + "shared_expert.up_proj.weight"), Role::kSharedExpert);
  }
}

TEST(Qwen3_5, the_dense_model_has_an_mlp_instead) {
  const ModelDescription model = describe(dense_config());
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.up_proj.weight"), (Shape{18, 24}));
  EXPECT_EQ(model.config.moe_layer_count(), 0);
  const ModelDescription same = describe(
      {{"model_type", "qwen3_5"}, {"text_config", dense_config()}, {"vision_config", json::object()}});
  EXPECT_EQ(same.manifest.structure_hash(), model.manifest.structure_hash());
}

TEST(Qwen3_5, layers_follow_an_interval_where_they_are_not_named) {
  const auto kinds = [](const json& changes) { return describe(text_config(changes)).config.attention; };
  constexpr AttentionKind kLinear = AttentionKind::kLinear;
  constexpr AttentionKind kFull = AttentionKind::kFull;
  EXPECT_EQ(kinds({{"layer_types", nullptr}}), (std::vector{kLinear, kLinear, kLinear, kFull}));
  EXPECT_EQ(kinds({{"layer_types", nullptr}, {"full_attention_interval", 2}}),
            (std::vector{kLinear, kFull, kLinear, kFull}));
}

TEST(Qwen3_5, a_wrapper_holds_the_same_tensors_under_its_own_names) {
  const ModelDescription text = describe(text_config());
  const ModelDescription wrapper = describe(wrapped());
  EXPECT_EQ(wrapper.manifest.structure_hash(), text.manifest.structure_hash());
  EXPECT_EQ(wrapper.config.model_type, "qwen3_5_moe");
  const auto first = [](const ModelDescription& model) {
    return KeyMap(model.manifest).published(ExpertLayout::kFused).front().name;
  };
  EXPECT_EQ(first(text), "model.embed_tokens.weight");
  EXPECT_EQ(first(wrapper), "model.language_model.embed_tokens.weight");
}

TEST(Qwen3_5, the_wrapper_decides_on_ties_and_the_text_model_on_its_element_type) {
  json config = wrapped({{"dtype", "float16"}});
  config["tie_word_embeddings"] = true;
  config["dtype"] = "float32";
  const ModelDescription model = describe(config);
  EXPECT_EQ(model.manifest[*model.manifest.find("lm_head.weight")].tied_to, "model.embed_tokens.weight");
  EXPECT_EQ(model.config.published_dtype, DType::kFloat16);
  config["text_config"].erase("dtype");
  EXPECT_EQ(describe(config).config.published_dtype, DType::kFloat32);
}

TEST(Qwen3_5, untrained_norms_multiply_with_one_and_states_decay) {
  const ModelDescription model = describe(wrapped());
  const auto initial = [&](const char* name) { return model.manifest[*model.manifest.find(name)].initial; };
  EXPECT_EQ(initial("model.norm.weight"), InitialValues::kZeros);
  EXPECT_EQ(initial("model.layers.3.self_attn.q_norm.weight"), InitialValues::kZeros);
  EXPECT_EQ(initial("model.layers.0.linear_attn.norm.weight"), InitialValues::kByRole);
  EXPECT_EQ(initial("model.layers.0.linear_attn.dt_bias"), InitialValues::kOnes);
  EXPECT_EQ(initial("model.layers.0.linear_attn.A_log"), InitialValues::kLogOfUniform16);
}

TEST(Qwen3_5, key_value_heads_that_are_not_said_are_as_many_as_transformers_takes) {
  EXPECT_EQ(describe(text_config({{"num_key_value_heads", nullptr}})).config.key_value_heads, 2);
  const json dense = {{"model_type", "qwen3_5_text"},
                      {"num_key_value_heads", nullptr},
                      {"num_attention_heads", 12},
                      {"intermediate_size", 18}};
  EXPECT_EQ(describe(text_config(dense)).config.key_value_heads, 4);
}

TEST(Qwen3_5, quantized_checkpoints_are_refused_wherever_they_say_it) {
  const json awq = {{"quant_method", "awq"}};
  json config = wrapped();
  config["quantization_config"] = awq;
  expect_refused(config, {"config.json: quantization_config: quant_method", "found \"awq\""});
  expect_refused(wrapped({{"quantization_config", awq}}),
                 {"config.json: text_config: quantization_config: quant_method", "found \"awq\""});
}

TEST(Qwen3_5, contradictions_are_refused_by_key) {
  expect_refused(text_config({{"layer_types", {"linear_attention"}}}), {"layer_types", "4 layers"});
  expect_refused(text_config({{"layer_types", {1, 2, 3, 4}}}), {"layer_types", "a list of texts"});
  expect_refused(text_config({{"layer_types", {"mamba", "mamba", "mamba", "mamba"}}}),
                 {"layer_types", "mamba", "'full_attention'"});
  expect_refused(text_config({{"layer_types", nullptr}, {"full_attention_interval", 0}}),
                 {"full_attention_interval", "found 0"});
  expect_refused(text_config({{"linear_num_value_heads", 3}}),
                 {"linear_num_value_heads", "found 3", "multiple of linear_num_key_heads = 2"});
  expect_refused(text_config({{"partial_rotary_factor", 1.5}}),
                 {"partial_rotary_factor", "1.5", "at most 1"});
  expect_refused(text_config({{"partial_rotary_factor", 0.2}}),
                 {"partial_rotary_factor", "0.2", "even part"});
  expect_refused(text_config({{"attn_output_gate", false}}), {"attn_output_gate", "false"});
  expect_refused(text_config({{"mlp_only_layers", {1}}}), {"mlp_only_layers", "[1]", "an empty list"});
  expect_refused(text_config({{"num_attention_heads", 1 << 20}, {"num_key_value_heads", 1}}),
                 {"num_attention_heads", "at most 65536"});
}

TEST(Qwen3_5, missing_keys_are_named_with_the_object_they_belong_in) {
  for (const char* key : {"linear_num_key_heads", "linear_value_head_dim", "linear_conv_kernel_dim",
                          "shared_expert_intermediate_size", "num_experts"})
    expect_refused(wrapped({{key, nullptr}}), {"config.json: text_config: key '" + std::string(key)});
  expect_refused({{"model_type", "qwen3_5_moe"}}, {"text_config", "found nothing"});
  expect_refused(wrapped({{"model_type", "qwen3_moe"}}), {"text_config: model_type", "'qwen3_5_moe_text'"});
}

}  // namespace
}  // namespace sluice
