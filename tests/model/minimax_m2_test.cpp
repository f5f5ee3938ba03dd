#include "model/families/minimax_m2.hpp"

#include "manifest/key_map.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of MiniMax-M2, with changes: keys set to null are taken away.
ModelDescription minimax(const json& changes = json::object()) {
  json config = published_config("MiniMax-M2");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
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
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(minimax(changes)); });
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
