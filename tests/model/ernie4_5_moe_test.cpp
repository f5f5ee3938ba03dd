#include "model/families/ernie4_5_moe.hpp"

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

/// config.json of ERNIE-4.5-21B-A3B-PT, with changes: keys set to null are taken away.
ModelDescription ernie(const json& changes = json::object()) {
  json config = published_config("ERNIE-4.5-21B-A3B");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

TEST(Ernie45Moe, interleaved_pairs_turn_and_the_head_is_the_embedding) {
  const ModelConfig config = ernie().config;
  EXPECT_TRUE(config.rotary.interleaved);
  EXPECT_EQ(config.rotary.dim, 128);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.padding_token, 0);
}

TEST(Ernie45Moe, experts_are_chosen_by_corrected_probabilities_and_weighed_by_a_sum_that_is_not_too_small) {
  const RouterConfig router = ernie({{"moe_norm_min", 1e-6}}).config.router;
  EXPECT_EQ(router.score, RouterScore::kSoftmax);
  EXPECT_TRUE(router.has_correction_bias);
  EXPECT_FALSE(router.has_balancing_loss());
  EXPECT_TRUE(router.normalize);
  EXPECT_EQ(router.epsilon, 0);
  EXPECT_EQ(router.least_sum, 1e-6);
}

TEST(Ernie45Moe, correction_biases_are_rows_under_their_published_name) {
  const ModelDescription model = ernie();
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.gate.e_score_correction_bias"), (Shape{1, 64}));
  const KeyMap keys(model.manifest);
  const std::string name = "model.layers.27.mlp.moe_statics.e_score_correction_bias";
  EXPECT_TRUE(std::holds_alternative<KeyTarget>(keys.resolve(name)));
  const auto published = keys.published(ExpertLayout::kPerExpert);
  EXPECT_NE(std::ranges::find(published, name, &PublishedTensor::name), published.end());
}

TEST(Ernie45Moe, layers_with_experts_are_those_of_a_range_at_an_interval) {
  const auto sparse = [](const json& changes) {
    std::vector<int> out;
    const std::vector<MlpKind> layers = ernie(changes).config.layers;
    for (std::size_t layer = 0; layer < layers.size(); ++layer)
      if (layers[layer] == MlpKind::kMoe) out.push_back(static_cast<int>(layer));
    return out;
  };
  EXPECT_EQ(sparse(json::object()).size(), 27U);
  EXPECT_EQ(sparse({{"moe_layer_end_index", -1}}).back(), 27);
  EXPECT_EQ(sparse({{"moe_layer_start_index", 4}, {"moe_layer_end_index", 9}, {"moe_layer_interval", 2}}),
            (std::vector{5, 7, 9}));
}

TEST(Ernie45Moe, shared_experts_are_one_without_a_gate_or_none) {
  EXPECT_EQ(shape_of(ernie(), "model.layers.1.mlp.shared_experts.up_proj.weight"), (Shape{2 * 1536, 2560}));
  EXPECT_EQ(
      shape_of(ernie({{"moe_num_shared_experts", 0}}), "model.layers.1.mlp.shared_experts.up_proj.weight"),
      (Shape{-1}));
}

TEST(Ernie45Moe, parts_for_multi_token_prediction_are_named) {
  const ModelDescription model = ernie();
  for (const char* name : {"model.mtp_block.0.self_attn.q_proj.weight", "model.mtp_emb_norm.0.weight",
                           "model.mtp_hidden_norm.0.weight", "model.mtp_linear_proj.0.weight"}) {
    const auto key = KeyMap(model.manifest).resolve(name);
    ASSERT_TRUE(std::holds_alternative<IgnoredKey>(key)) << name;
    EXPECT_EQ(std::get<IgnoredKey>(key).part, ForeignPart::kMultiTokenPrediction);
  }
}

TEST(Ernie45Moe, absent_keys_have_transformers_defaults) {
  const ModelConfig config = ernie({{"tie_word_embeddings", nullptr},
                                    {"moe_layer_start_index", nullptr},
                                    {"moe_layer_end_index", nullptr},
                                    {"moe_layer_interval", nullptr},
                                    {"moe_num_shared_experts", nullptr},
                                    {"num_key_value_heads", nullptr},
                                    {"pad_token_id", nullptr},
                                    {"rms_norm_eps", nullptr},
                                    {"rope_theta", nullptr},
                                    {"use_bias", nullptr}})
                                 .config;
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.moe_layer_count(), 27);
  EXPECT_EQ(config.shared_expert_intermediate_size, 2 * 1536);
  EXPECT_EQ(config.key_value_heads, 4);
  EXPECT_EQ(config.padding_token, 0);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rotary.theta, 500000);
  EXPECT_EQ(config.router.least_sum, 1e-12);
}

TEST(Ernie45Moe, what_no_block_computes_is_refused) {
  const auto expect_refused = [](const json& changes, const std::vector<std::string>& parts) {
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(ernie(changes)); });
  };
  expect_refused({{"use_bias", true}}, {"use_bias", "true", "false"});
  expect_refused({{"moe_k", 65}}, {"moe_k", "64"});
  expect_refused({{"moe_norm_min", 0}}, {"moe_norm_min"});
  expect_refused({{"hidden_act", "gelu"}}, {"hidden_act", "gelu"});
}

}  // namespace
}  // namespace sluice
