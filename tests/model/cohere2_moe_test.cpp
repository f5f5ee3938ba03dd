#include "model/families/cohere2_moe.hpp"

#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of North Mini Code with changes: keys set to null are taken away, but for those of `nulls`, which are
/// null.
ModelDescription north(const json& changes = json::object(), const std::vector<std::string>& nulls = {}) {
  json config = published_config("North-Mini-Code-1.0");
  config.merge_patch(changes);
  for (const std::string& key : nulls) config[key] = nullptr;
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

void expect_cohere_refused(const json& changes, const std::vector<std::string>& parts,
                           const std::vector<std::string>& nulls = {}) {
  SCOPED_TRACE(changes.dump());
  expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(north(changes, nulls)); });
}

TEST(Cohere2Moe, a_layer_has_one_norm_for_both_halves) {
  const ModelDescription model = north();
  EXPECT_TRUE(model.config.has_parallel_halves(0) && model.config.has_parallel_halves(48));
  EXPECT_EQ(shape_of(model, "model.layers.1.input_layernorm.weight"), (Shape{2048}));
  EXPECT_EQ(shape_of(model, "model.layers.1.post_attention_layernorm.weight"), (Shape{-1}));
}

TEST(Cohere2Moe, norms_take_the_mean_off_unless_an_epsilon_of_rms_norms_is_set) {
  EXPECT_FALSE(north().config.layer_norms);
  EXPECT_EQ(north().config.rms_norm_eps, 1e-6);
  for (const ModelConfig& config :
       {north({{"rms_norm_eps", nullptr}}).config, north(json::object(), {"rms_norm_eps"}).config}) {
    EXPECT_TRUE(config.layer_norms);
    EXPECT_EQ(config.rms_norm_eps, 1e-5);
  }
  EXPECT_EQ(north({{"rms_norm_eps", nullptr}, {"layer_norm_eps", 1e-3}}).config.rms_norm_eps, 1e-3);
}

TEST(Cohere2Moe, layers_with_a_window_rotate_and_so_do_dense_ones_where_their_period_is_one) {
  const ModelConfig config = north().config;
  EXPECT_EQ(block_kinds(config).substr(0, 9), "FSSSFSSSF");
  EXPECT_EQ(config.rotary_of(AttentionKind::kSliding).dim, 128);
  EXPECT_EQ(config.rotary_of(AttentionKind::kSliding).theta, 50000);
  EXPECT_TRUE(config.rotary_of(AttentionKind::kSliding).interleaved);
  EXPECT_EQ(config.rotary_of(AttentionKind::kFull).dim, 0);
  EXPECT_EQ(config.rotates_as(0), AttentionKind::kSliding);
  EXPECT_EQ(config.rotates_as(1), AttentionKind::kSliding);
  EXPECT_EQ(config.rotates_as(4), AttentionKind::kFull);
  EXPECT_EQ(north({{"prefix_dense_sliding_window_pattern", 2}}).config.rotates_as(0), AttentionKind::kFull);
}

TEST(Cohere2Moe, periods_say_which_layers_have_a_window_where_no_list_does) {
  const auto kinds = [](int dense, const json& of_dense, const json& of_others) {
    return block_kinds(north({{"layer_types", nullptr},
                              {"num_hidden_layers", 9},
                              {"first_k_dense_replace", dense},
                              {"prefix_dense_sliding_window_pattern", of_dense},
                              {"sliding_window_pattern", of_others}})
                           .config);
  };
  EXPECT_EQ(kinds(0, nullptr, nullptr), "SSSFSSSFS") << "transformers' default is 4";
  EXPECT_EQ(kinds(2, nullptr, nullptr), "FFSSSFSSS") << "and 1 of dense layers";
  EXPECT_EQ(kinds(3, 2, 3), "SFSSSFSSF") << "each counts from its first";
  EXPECT_EQ(kinds(0, nullptr, 1), "FFFFFFFFF");
}

TEST(Cohere2Moe, the_first_layers_are_dense_with_a_width_of_their_own) {
  const ModelDescription model = north();
  EXPECT_EQ(model.config.moe_layer_count(), 48);
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.up_proj.weight"), (Shape{3072, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.experts.gate_up_proj"), (Shape{128, 2 * 768, 2048}));
  EXPECT_EQ(
      shape_of(north({{"prefix_dense_intermediate_size", nullptr}}), "model.layers.0.mlp.up_proj.weight"),
      (Shape{768, 2048}));
  std::vector<std::string> kinds(49, "sparse");
  kinds[5] = "dense";
  EXPECT_EQ(north({{"mlp_layer_types", kinds}}).config.layers[5], MlpKind::kDense) << "the list counts first";
}

TEST(Cohere2Moe, routers_choose_by_logits_and_weigh_by_sigmoids_or_by_a_softmax_over_the_chosen) {
  const auto router = [](const json& changes) { return north(changes).config.router; };
  EXPECT_TRUE(router(json::object()).chooses_by_logits);
  EXPECT_EQ(router(json::object()).score, RouterScore::kSigmoid);
  EXPECT_FALSE(router(json::object()).normalize);
  EXPECT_TRUE(router({{"norm_topk_prob", nullptr}}).normalize);
  for (const json& selection : {json(nullptr), json("softmax")}) {
    EXPECT_EQ(router({{"expert_selection_fn", selection}}).score, RouterScore::kSoftmax);
    EXPECT_TRUE(router({{"expert_selection_fn", selection}}).normalize) << "whatever norm_topk_prob says";
  }
}

TEST(Cohere2Moe, experts_and_shared_experts_are_averaged_or_added) {
  EXPECT_EQ(north().config.mixture_factor, 1) << "no shared expert";
  const ModelDescription model = north({{"num_shared_experts", 4}});
  EXPECT_EQ(model.config.mixture_factor, 0.5);
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.shared_experts.up_proj.weight"), (Shape{4 * 768, 2048}));
  EXPECT_EQ(
      north({{"num_shared_experts", 4}, {"shared_expert_combination_strategy", "sum"}}).config.mixture_factor,
      1);
}

TEST(Cohere2Moe, absent_keys_have_transformers_defaults) {
  const ModelConfig config = north({{"head_dim", nullptr},
                                    {"hidden_act", nullptr},
                                    {"logit_scale", nullptr},
                                    {"num_key_value_heads", nullptr},
                                    {"num_shared_experts", nullptr},
                                    {"rope_theta", nullptr},
                                    {"sliding_window", nullptr},
                                    {"tie_word_embeddings", nullptr}})
                                 .config;
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.logit_divisor, 16);
  EXPECT_EQ(config.key_value_heads, 32);
  EXPECT_EQ(config.padding_token, 0);
  EXPECT_EQ(config.rotary_of(AttentionKind::kSliding).theta, 10000);
  EXPECT_EQ(config.sliding_window, 4096);
  EXPECT_TRUE(config.tie_word_embeddings);
}

TEST(Cohere2Moe, what_no_block_computes_is_refused) {
  for (const char* key : {"use_parallel_block", "use_gated_activation"})
    expect_cohere_refused({{key, false}}, {key, "found false", "expected true"});
  for (const char* key : {"use_qk_norm", "layer_norm_bias"})
    expect_cohere_refused({{key, true}}, {key, "found true", "expected false"});
  expect_cohere_refused({{"rotary_pct", 0.5}}, {"rotary_pct", "found 0.5", "expected 1"});
  expect_cohere_refused({{"position_embedding_type", "rope"}},
                        {"position_embedding_type", "\"rope\"", "'rope_gptj'"});
  expect_cohere_refused({{"expert_selection_fn", "top"}},
                        {"expert_selection_fn", "\"top\"", "'sigmoid' or 'softmax'"});
  expect_cohere_refused({{"shared_expert_combination_strategy", "max"}},
                        {"shared_expert_combination_strategy", "\"max\"", "'sum' or 'average'"});
  expect_cohere_refused({{"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}}},
                        {"rope_scaling", "rope_parameters"});
  expect_cohere_refused({{"rope_parameters", {{"rope_type", "default"}}}}, {"rope_parameters", "rope_theta"});
  expect_cohere_refused({{"logit_scale", 0.0}}, {"logit_scale", "above 0"});
  expect_cohere_refused(json::object(), {"sliding_window", "null"}, {"sliding_window"});
  expect_cohere_refused({{"layer_types", nullptr}, {"first_k_dense_replace", 50}},
                        {"first_k_dense_replace", "found 50"});
  expect_cohere_refused({{"attention_dropout", 0.1}}, {"attention_dropout", "expected 0"});
}

}  // namespace
}  // namespace sluice
