#include "model/families/qwen3_next.hpp"

#include "model/architecture.hpp"
#include "model/published_size.hpp"
#include "model/shape_of.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace sluice {
namespace {

using nlohmann::json;
using test::Shape;
using test::shape_of;

/// config.json of Qwen3-Next-80B-A3B-Instruct, with changes: keys set to null are taken away.
ModelDescription qwen3_next(const json& changes = json::object()) {
  json config = json::parse(R"({
    "architectures": ["Qwen3NextForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 151643,
    "decoder_sparse_step": 1, "eos_token_id": 151645, "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu",
    "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5120, "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
    "max_position_embeddings": 262144, "mlp_only_layers": [], "model_type": "qwen3_next", "moe_intermediate_size": 512,
    "norm_topk_prob": true, "num_attention_heads": 16, "num_experts": 512, "num_experts_per_tok": 10,
    "num_hidden_layers": 48, "num_key_value_heads": 2, "output_router_logits": false, "partial_rotary_factor": 0.25,
    "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000000, "router_aux_loss_coef": 0.001,
    "shared_expert_intermediate_size": 512, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true,
    "use_sliding_window": false, "vocab_size": 151936
  })");
  config.merge_patch(changes);
  const ModelConfig read = read_qwen3_next_config(ConfigReader::parse(config.dump(), "config.json"));
  return {read, describe_qwen3_next(read, DType::kBFloat16)};
}

TEST(Qwen3Next, has_as_many_parameters_and_tensors_as_are_published) {
  EXPECT_EQ(test::published_size(qwen3_next()), (test::PublishedSize{79'674'391'296, 74'391}));
}

TEST(Qwen3Next, a_token_meets_a_part_of_them) {
  EXPECT_EQ(std::round(static_cast<double>(active_parameters(qwen3_next())) / 1e7) / 100, 3.87);
}

TEST(Qwen3Next, attends_linearly_in_three_layers_of_four) {
  const ModelDescription model = qwen3_next();
  EXPECT_EQ(model.config.attention[2], AttentionKind::kLinear);
  EXPECT_EQ(model.config.attention[3], AttentionKind::kFull);
  EXPECT_EQ(model.config.attention[47], AttentionKind::kFull);
}

TEST(Qwen3Next, has_the_tensors_of_qwen3_5) {
  const ModelDescription model = qwen3_next();
  EXPECT_EQ(shape_of(model, "model.layers.0.linear_attn.in_proj_qkv.weight"), (Shape{2 * 2048 + 4096, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.linear_attn.in_proj_z.weight"), (Shape{4096, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.linear_attn.in_proj_b.weight"), (Shape{32, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.linear_attn.in_proj_a.weight"), (Shape{32, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.3.self_attn.q_proj.weight"), (Shape{2 * 16 * 256, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.3.mlp.shared_expert_gate.weight"), (Shape{1, 2048}));
  EXPECT_EQ(model.config.rotary.dim, 64);
  EXPECT_TRUE(model.config.zero_centred_norms);
}

TEST(Qwen3Next, layers_may_have_a_dense_mlp) {
  const ModelDescription model = qwen3_next({{"mlp_only_layers", {1}}, {"decoder_sparse_step", 2}});
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.up_proj.weight"), (Shape{5120, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.up_proj.weight"), (Shape{5120, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.3.mlp.gate.weight"), (Shape{512, 2048}));
  EXPECT_EQ(model.config.moe_layer_count(), 23);
}

TEST(Qwen3Next, absent_keys_have_transformers_defaults) {
  const ModelConfig config = qwen3_next({{"decoder_sparse_step", nullptr},
                                         {"full_attention_interval", nullptr},
                                         {"head_dim", nullptr},
                                         {"mlp_only_layers", nullptr},
                                         {"norm_topk_prob", nullptr},
                                         {"num_key_value_heads", nullptr},
                                         {"partial_rotary_factor", nullptr},
                                         {"rms_norm_eps", nullptr}})
                                 .config;
  EXPECT_EQ(config.moe_layer_count(), 48);
  EXPECT_EQ(config.attention[3], AttentionKind::kFull);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_TRUE(config.router.normalize);
  EXPECT_EQ(config.key_value_heads, 2);
  EXPECT_EQ(config.rotary.dim, 64);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
}

TEST(Qwen3Next, what_no_block_computes_is_refused) {
  const auto expect_refused = [](const json& changes, const std::vector<std::string>& parts) {
    test::expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(qwen3_next(changes)); });
  };
  expect_refused({{"attention_bias", true}}, {"attention_bias", "found true", "false"});
  expect_refused({{"hidden_act", "gelu"}}, {"hidden_act", "gelu", "'silu'"});
  expect_refused({{"use_sliding_window", true}}, {"use_sliding_window", "found true", "false"});
  expect_refused({{"attention_dropout", 0.1}}, {"attention_dropout", "found 0.1", "0"});
  expect_refused({{"linear_num_value_heads", 24}}, {"linear_num_value_heads", "found 24", "16"});
  expect_refused({{"layer_types", {"linear_attention"}}}, {"layer_types", "48"});
  expect_refused({{"mlp_only_layers", {48}}}, {"mlp_only_layers", "indices of layers"});
}

}  // namespace
}  // namespace sluice
