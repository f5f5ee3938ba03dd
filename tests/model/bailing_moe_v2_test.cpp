#include "model/families/bailing_moe_v2.hpp"

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

/// config.json of Ling-mini-2.0, with changes: keys set to null are taken away.
ModelDescription ling(const json& changes = json::object()) {
  json config = json::parse(R"({
    "architectures": ["BailingMoeV2ForCausalLM"], "attention_dropout": 0.0, "embedding_dropout": 0.0, "eos_token_id": 156892,
    "first_k_dense_replace": 1, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
    "intermediate_size": 5120, "max_position_embeddings": 32768, "model_type": "bailing_moe_v2",
    "moe_intermediate_size": 512, "moe_router_enable_expert_bias": true, "moe_shared_expert_intermediate_size": 512,
    "n_group": 8, "norm_topk_prob": true, "num_attention_heads": 16, "num_experts": 256, "num_experts_per_tok": 8,
    "num_hidden_layers": 20, "num_key_value_heads": 4, "num_nextn_predict_layers": 0, "num_shared_experts": 1,
    "output_dropout": 0.0, "pad_token_id": 156892, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-06,
    "rope_scaling": null, "rope_theta": 600000, "routed_scaling_factor": 2.5, "router_dtype": "fp32",
    "score_function": "sigmoid", "tie_word_embeddings": false, "topk_group": 4, "torch_dtype": "bfloat16",
    "use_bias": false, "use_cache": true, "use_qk_norm": true, "use_qkv_bias": false, "use_rmsnorm": true,
    "vocab_size": 157184
  })");
  config.merge_patch(changes);
  const ModelConfig read = read_bailing_moe_v2_config(ConfigReader::parse(config.dump(), "config.json"));
  return {read, describe_bailing_moe_v2(read, DType::kBFloat16)};
}

TEST(BailingMoeV2, has_as_many_parameters_and_tensors_as_are_published) {
  EXPECT_EQ(test::published_size(ling()), (test::PublishedSize{16'255'643'392, 14'813}));
}

TEST(BailingMoeV2, a_token_meets_a_part_of_them) {
  EXPECT_EQ(std::round(static_cast<double>(active_parameters(ling())) / 1e7) / 100, 1.43);
}

TEST(BailingMoeV2, has_the_tensors_of_the_module_tree) {
  const ModelDescription model = ling();
  EXPECT_EQ(shape_of(model, "model.embed_tokens.weight"), (Shape{157184, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_proj.weight"), (Shape{16 * 128, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.v_proj.weight"), (Shape{4 * 128, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.k_norm.weight"), (Shape{128}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.up_proj.weight"), (Shape{5120, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.gate.e_score_correction_bias"), (Shape{256}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.shared_experts.up_proj.weight"), (Shape{512, 2048}));
}

TEST(BailingMoeV2, chooses_by_corrected_sigmoids_in_groups) {
  EXPECT_EQ(ling().config.router, (RouterConfig{.score = RouterScore::kSigmoid,
                                                .has_correction_bias = true,
                                                .groups = 8,
                                                .chosen_groups = 4,
                                                .normalize = true,
                                                .epsilon = 1e-20,
                                                .scale = 2.5}));
}

TEST(BailingMoeV2, the_weight_of_one_chosen_expert_is_not_normalised) {
  EXPECT_FALSE(ling({{"num_experts_per_tok", 1}}).config.router.normalize);
}

TEST(BailingMoeV2, two_keys_say_how_much_of_a_head_turns) {
  EXPECT_EQ(ling().config.rotary.dim, 64);
  EXPECT_EQ(ling({{"partial_rotary_factor", nullptr}, {"rotary_dim", 32}}).config.rotary.dim, 32);
  EXPECT_EQ(ling({{"rotary_dim", 64}}).config.rotary.dim, 64);
  EXPECT_EQ(ling({{"partial_rotary_factor", nullptr}}).config.rotary.dim, 128);
}

TEST(BailingMoeV2, absent_keys_have_the_defaults_of_its_published_code) {
  const ModelConfig config = ling({{"first_k_dense_replace", nullptr},
                                   {"head_dim", nullptr},
                                   {"n_group", nullptr},
                                   {"num_key_value_heads", nullptr},
                                   {"num_shared_experts", nullptr},
                                   {"pad_token_id", nullptr},
                                   {"rope_theta", nullptr},
                                   {"routed_scaling_factor", nullptr},
                                   {"topk_group", nullptr},
                                   {"use_qk_norm", nullptr}})
                                 .config;
  EXPECT_EQ(config.moe_layer_count(), 19);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.router.groups, 8);
  EXPECT_EQ(config.router.chosen_groups, 4);
  EXPECT_EQ(config.router.scale, 1);
  EXPECT_EQ(config.key_value_heads, 4);
  EXPECT_EQ(config.shared_expert_intermediate_size, 512);
  EXPECT_EQ(config.padding_token, 156'892);
  EXPECT_EQ(config.rotary.theta, 600'000);
  EXPECT_EQ(config.query_key_norm, QueryKeyNorm::kPerHead);
}

TEST(BailingMoeV2, what_no_block_computes_is_refused) {
  const auto expect_refused = [](const char* key, const json& value, const std::vector<std::string>& parts) {
    std::vector<std::string> all{key};
    all.insert(all.end(), parts.begin(), parts.end());
    test::expect_error(ExitCode::kBadData, all, [&] { static_cast<void>(ling({{key, value}})); });
  };
  for (const char* key : {"use_bias", "use_qkv_bias", "norm_head", "rope_interleave", "use_sliding_window"})
    expect_refused(key, true, {"found true", "false"});
  for (const char* key : {"moe_router_enable_expert_bias", "norm_topk_prob", "use_rmsnorm"})
    expect_refused(key, false, {"found false", "true"});
  for (const char* key : {"attention_dropout", "embedding_dropout", "output_dropout"})
    expect_refused(key, 0.1, {"found 0.1", "0"});
  expect_refused("score_function", "softmax", {"softmax", "'sigmoid'"});
  expect_refused("router_dtype", "bf16", {"bf16", "'fp32'"});
  expect_refused("rotary_dim", 32, {"found 32", "64"});
  expect_refused("moe_shared_expert_intermediate_size", 1024, {"found 1024", "512"});
}

}  // namespace
}  // namespace sluice
