#include "model/families/exaone_moe.hpp"

#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of K-EXAONE with changes: keys set to null are taken away, but for those of `nulls`, which are null.
ModelDescription exaone(const json& changes = json::object(), const std::vector<std::string>& nulls = {}) {
  json config = published_config("K-EXAONE-236B-A23B");
  config.merge_patch(changes);
  for (const std::string& key : nulls) config[key] = nullptr;
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

void expect_exaone_refused(const json& changes, const std::vector<std::string>& parts,
                           const std::vector<std::string>& nulls = {}) {
  SCOPED_TRACE(changes.dump());
  expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(exaone(changes, nulls)); });
}

TEST(ExaoneMoe, layers_with_a_window_rotate_and_the_others_do_not) {
  const ModelDescription model = exaone();
  EXPECT_EQ(block_kinds(model.config).substr(0, 8), "SSSFSSSF");
  EXPECT_EQ(model.config.sliding_window, 128);
  EXPECT_EQ(model.config.rotary_of(AttentionKind::kSliding).dim, 128);
  EXPECT_EQ(model.config.rotary_of(AttentionKind::kSliding).theta, 1e6);
  EXPECT_EQ(model.config.rotary_of(AttentionKind::kFull).dim, 0);
  EXPECT_EQ(shape_of(model, "model.rotary_emb.inv_freq"), (Shape{64}));
}

TEST(ExaoneMoe, without_windows_every_layer_rotates) {
  const json full = {{"layer_types", std::vector<std::string>(48, "full_attention")}};
  const ModelConfig config = exaone(full, {"sliding_window"}).config;
  EXPECT_EQ(config.rotary_of(AttentionKind::kFull).dim, 128);
  EXPECT_EQ(exaone(full).config.rotary_of(AttentionKind::kFull).dim, 0) << "a window that no layer has";
}

TEST(ExaoneMoe, a_pattern_says_which_layers_have_a_window_as_a_number_or_as_letters) {
  const auto kinds = [](const json& pattern, int layers) {
    return block_kinds(exaone({{"layer_types", nullptr},
                               {"mlp_layer_types", nullptr},
                               {"num_hidden_layers", layers},
                               {"sliding_window_pattern", pattern}})
                           .config);
  };
  EXPECT_EQ(kinds("LLLG", 8), "SSSFSSSF");
  EXPECT_EQ(kinds("LG", 5), "SFSFF") << "the last layer of letters has no window";
  EXPECT_EQ(kinds(3, 7), "SSFSSFS");
  EXPECT_EQ(kinds(1, 2), "FF");
  EXPECT_EQ(kinds(nullptr, 5), "SSSFS") << "transformers' default is 4";
}

TEST(ExaoneMoe, lists_may_go_on_for_the_layers_for_multi_token_prediction) {
  json longer = published_config("K-EXAONE-236B-A23B").at("layer_types");
  longer.push_back("full_attention");
  EXPECT_EQ(exaone({{"layer_types", longer}}).config.layer_count(), 48);
  expect_exaone_refused({{"layer_types", longer}, {"num_nextn_predict_layers", 0}},
                        {"layer_types", "num_hidden_layers = 48"});
}

TEST(ExaoneMoe, the_first_layer_is_dense_and_mixtures_have_a_shared_expert_and_a_correction_bias) {
  const ModelDescription model = exaone({{"num_shared_experts", 2}});
  EXPECT_EQ(model.config.moe_layer_count(), 47);
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.up_proj.weight"), (Shape{18432, 6144}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.shared_experts.up_proj.weight"), (Shape{2 * 2048, 6144}));
  EXPECT_EQ(model.manifest.published_name("model.layers.1.mlp.gate.e_score_correction_bias"),
            "model.layers.1.mlp.e_score_correction_bias");
  EXPECT_EQ(plain_name("model.layers.1.mlp.e_score_correction_bias"),
            "model.layers.1.mlp.gate.e_score_correction_bias");
}

TEST(ExaoneMoe, absent_keys_have_transformers_defaults) {
  const ModelConfig config = exaone({{"first_k_dense_replace", nullptr},
                                     {"n_group", nullptr},
                                     {"norm_topk_prob", nullptr},
                                     {"num_shared_experts", nullptr},
                                     {"pad_token_id", nullptr},
                                     {"rms_norm_eps", nullptr},
                                     {"rope_parameters", nullptr},
                                     {"routed_scaling_factor", nullptr},
                                     {"sliding_window", nullptr}})
                                 .config;
  EXPECT_EQ(config.moe_layer_count(), 47);
  EXPECT_EQ(config.padding_token, 0);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.router.scale, 2.5);
  EXPECT_TRUE(config.router.normalize);
  EXPECT_EQ(config.sliding_window, 4096);
  EXPECT_EQ(config.rotary_of(AttentionKind::kSliding).theta, 10000);
}

TEST(ExaoneMoe, what_no_block_computes_is_refused) {
  expect_exaone_refused(json::object(), {"sliding_window", "null"}, {"sliding_window"});
  expect_exaone_refused({{"layer_types", nullptr}}, {"sliding_window", "null"}, {"sliding_window"});
  expect_exaone_refused({{"layer_types", nullptr}, {"sliding_window_pattern", "LXG"}},
                        {"sliding_window_pattern", "LXG", "L and G"});
  expect_exaone_refused({{"layer_types", nullptr}, {"sliding_window_pattern", 0}},
                        {"sliding_window_pattern", "0"});
  expect_exaone_refused({{"hidden_act", "gelu"}}, {"hidden_act", "gelu"});
  expect_exaone_refused({{"n_group", 3}}, {"n_group", "found 3", "128"});
}

}  // namespace
}  // namespace sluice
