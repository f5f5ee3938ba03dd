#include "model/families/qwen2_moe.hpp"

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

/// config.json of Qwen1.5-MoE-A2.7B, with changes: keys set to null are taken away.
ModelDescription qwen2(const json& changes = json::object()) {
  json config = json::parse(R"({
    "architectures": ["Qwen2MoeForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
    "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
    "intermediate_size": 5632, "max_position_embeddings": 8192, "max_window_layers": 21, "model_type": "qwen2_moe",
    "num_attention_heads": 16, "num_hidden_layers": 24, "num_key_value_heads": 16, "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "use_cache": true, "use_sliding_window": false, "vocab_size": 151936, "decoder_sparse_step": 1,
    "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4,
    "num_experts": 60, "norm_topk_prob": false, "output_router_logits": false, "router_aux_loss_coef": 0.001
  })");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

TEST(Qwen2Moe, has_the_parameters_that_transformers_counts) {
  EXPECT_EQ(qwen2().manifest.parameter_count(), 14'315'784'192);
}

TEST(Qwen2Moe, queries_keys_and_values_have_biases_unless_config_json_says_otherwise) {
  EXPECT_EQ(shape_of(qwen2(), "model.layers.0.self_attn.k_proj.bias"), (Shape{2048}));
  EXPECT_EQ(shape_of(qwen2(), "model.layers.0.self_attn.o_proj.bias"), (Shape{-1}));
  EXPECT_EQ(shape_of(qwen2({{"qkv_bias", false}}), "model.layers.0.self_attn.k_proj.bias"), (Shape{-1}));
}

TEST(Qwen2Moe, has_a_gated_expert_beside_those_of_the_router) {
  const ModelDescription model = qwen2({{"mlp_only_layers", {3}}});
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.shared_expert.up_proj.weight"), (Shape{5632, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.shared_expert_gate.weight"), (Shape{1, 2048}));
  EXPECT_EQ(model.config.moe_layer_count(), 23);
  EXPECT_FALSE(model.config.router.normalize);
}

TEST(Qwen2Moe, windows_of_attention_are_refused) {
  const auto expect_refused = [](const json& changes, const std::string& key) {
    test::expect_error(ExitCode::kBadData, {key}, [&] { static_cast<void>(qwen2(changes)); });
  };
  expect_refused({{"use_sliding_window", true}}, "use_sliding_window");
  expect_refused({{"layer_types", {"sliding_attention"}}}, "layer_types");
}

}  // namespace
}  // namespace sluice
