#include "model/families/minimax_m2.hpp"

#include "manifest/key_map.hpp"
#include "model/architecture.hpp"
#include "model/published_size.hpp"
#include "model/shape_of.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using nlohmann::json;
using test::Shape;
using test::shape_of;

/// config.json of MiniMax-M2, with changes: keys set to null are taken away.
ModelDescription minimax(const json& changes = json::object()) {
  json config = json::parse(R"({
    "architectures": ["MiniMaxM2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 200034, "eos_token_id": 200020,
    "head_dim": 128, "hidden_act": "silu", "hidden_size": 3072, "initializer_range": 0.02, "intermediate_size": 1536,
    "max_position_embeddings": 196608, "model_type": "minimax_m2", "num_attention_heads": 48,
    "num_experts_per_tok": 8, "num_hidden_layers": 62, "num_key_value_heads": 8, "num_local_experts": 256,
    "qk_norm_type": "per_layer", "rms_norm_eps": 1e-06, "rope_theta": 5000000, "rotary_dim": 64,
    "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0, "scoring_func": "sigmoid",
    "shared_intermediate_size": 0, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true,
    "use_qk_norm": true, "use_routing_bias": true, "vocab_size": 200064
  })");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

TEST(MinimaxM2, has_the_parameters_and_tensors_of_the_published_model) {
  const ModelDescription model = minimax();
  EXPECT_EQ(test::published_size(model), (test::PublishedSize{228'689'764'864, 48'239}));
  EXPECT_NEAR(static_cast<double>(active_parameters(model)), 11.03e9, 0.005e9);
}

TEST(MinimaxM2, is_published_in_its_own_spelling_with_the_bias_beside_the_router) {
  const ModelDescription model = minimax();
  const KeyMap keys(model.manifest);
  const std::string block = "model.layers.61.block_sparse_moe.";
  for (const std::string name : {"gate.weight", "e_score_correction_bias", "experts.255.w1.weight"}) {
    const auto published = keys.published(ExpertLayout::kPerExpert);
    EXPECT_NE(std::ranges::find(published, block + name, &PublishedTensor::name), published.end()) << name;
    EXPECT_TRUE(std::holds_alternative<KeyTarget>(keys.resolve(block + name))) << name;
  }
}

TEST(MinimaxM2, norms_span_all_heads_and_part_of_each_head_turns) {
  const ModelDescription model = minimax();
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_norm.weight"), (Shape{48 * 128}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.k_norm.weight"), (Shape{8 * 128}));
  EXPECT_EQ(model.config.rotary.dim, 64);
  EXPECT_EQ(minimax({{"rotary_dim", nullptr}}).config.rotary.dim, 128);
  EXPECT_EQ(minimax({{"rotary_dim", nullptr}, {"rope_parameters", {{"partial_rotary_factor", 0.25}}}})
                .config.rotary.dim,
            32);
}

TEST(MinimaxM2, weights_are_normalised_without_an_epsilon) {
  const RouterConfig router = minimax().config.router;
  EXPECT_EQ(router.score, RouterScore::kSigmoid);
  EXPECT_TRUE(router.has_correction_bias);
  EXPECT_TRUE(router.normalize);
  EXPECT_EQ(router.epsilon, 0);
}

TEST(MinimaxM2, what_would_be_computed_wrongly_is_refused) {
  const auto expect_refused = [](const json& changes, const std::vector<std::string>& parts) {
    test::expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(minimax(changes)); });
  };
  expect_refused({{"scoring_func", "softmax"}}, {"scoring_func", "'sigmoid'"});
  expect_refused({{"use_routing_bias", false}}, {"use_routing_bias", "true"});
  expect_refused({{"use_qk_norm", false}}, {"use_qk_norm", "true"});
  expect_refused({{"qk_norm_type", "per_head"}}, {"qk_norm_type", "'per_layer'"});
  expect_refused({{"router_jitter_noise", 0.1}}, {"router_jitter_noise", "found 0.1", "0"});
  expect_refused({{"attention_bias", true}}, {"attention_bias", "false"});
  expect_refused({{"shared_intermediate_size", 8}}, {"shared_intermediate_size", "0"});
  expect_refused({{"rotary_dim", 256}}, {"partial_rotary_factor"});
}

}  // namespace
}  // namespace sluice
