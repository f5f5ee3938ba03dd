#include "model/families/minimax_m3.hpp"

#include "manifest/adapter.hpp"
#include "manifest/key_map.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of MiniMax-M3 with changes to its text model: keys set to null are taken away.
json m3_config(const json& changes) {
  json config = published_config("MiniMax-M3");
  config["text_config"].merge_patch(changes);
  return config;
}

ModelDescription m3(const json& changes = json::object()) {
  return describe_model_text(m3_config(changes).dump(), "config.json", DType::kBFloat16);
}

/// The text model of that by itself.
ModelDescription m3_text(const json& changes = json::object()) {
  json config = m3_config(changes)["text_config"];
  config["model_type"] = "minimax_m3_vl_text";
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

void expect_m3_refused(const json& changes, const std::vector<std::string>& parts) {
  SCOPED_TRACE(changes.dump());
  expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(m3(changes)); });
}

TEST(MinimaxM3, gates_of_all_mlps_are_clamped) {
  const ModelConfig config = m3().config;
  EXPECT_EQ(config.swiglu_limits, (SwigluLimits{.experts = 7, .shared_expert = 7, .dense = 7}));
  EXPECT_EQ(config.swiglu_clamp, SwigluClamp::kGate);
  EXPECT_EQ(config.swiglu_slope, 1.702);
  EXPECT_EQ(config.gate_up_order, GateUpOrder::kHalves);
  EXPECT_EQ(m3({{"swiglu_limit", 3.5}}).config.swiglu_limits.dense, 3.5);
}

TEST(MinimaxM3, mlps_have_widths_of_their_own) {
  const ModelDescription model = m3();
  EXPECT_EQ(shape_of(model, "model.layers.2.mlp.up_proj.weight"), (Shape{12'288, 6144}));
  EXPECT_EQ(shape_of(model, "model.layers.3.mlp.shared_experts.up_proj.weight"), (Shape{3072, 6144}));
  EXPECT_EQ(shape_of(model, "model.layers.3.mlp.experts.gate_up_proj"), (Shape{128, 2 * 3072, 6144}));
}

TEST(MinimaxM3, half_of_a_head_turns_and_heads_are_normalised_by_one_plus_a_weight) {
  const ModelDescription model = m3();
  EXPECT_EQ(model.config.rotary.dim, 64);
  EXPECT_EQ(model.config.rotary.theta, 5e6);
  EXPECT_TRUE(model.config.zero_centred_norms);
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_norm.weight"), (Shape{128}));
}

TEST(MinimaxM3, a_rotary_dim_that_is_not_that_share_of_a_head_is_refused) {
  expect_m3_refused({{"rotary_dim", 32}}, {"rotary_dim", "found 32", "64", "partial_rotary_factor"});
  expect_m3_refused({{"partial_rotary_factor", nullptr}},
                    {"rotary_dim", "found 64", "128", "partial_rotary_factor"});
  EXPECT_EQ(m3({{"rotary_dim", nullptr}}).config.rotary.dim, 64);
  EXPECT_EQ(m3({{"rotary_dim", nullptr}, {"partial_rotary_factor", nullptr}}).config.rotary.dim, 128);
}

TEST(MinimaxM3, chooses_by_corrected_sigmoids) {
  EXPECT_EQ(m3().config.router,
            (RouterConfig{
                .score = RouterScore::kSigmoid, .has_correction_bias = true, .normalize = true, .scale = 2}));
}

TEST(MinimaxM3, sequences_are_as_long_as_indexers_choose_all_blocks) {
  EXPECT_EQ(m3().config.sequence_limit.tokens, 16 * 128);
  EXPECT_EQ(m3({{"sparse_attention_config", {{"sparse_topk_blocks", 4}}}}).config.sequence_limit.tokens,
            4 * 128);
  const json flat{{"sparse_attention_config", nullptr},
                  {"index_topk_blocks", 3},
                  {"index_block_size", 8},
                  {"layer_types", std::vector<std::string>(60, "minimax_m3_sparse")}};
  EXPECT_EQ(m3(flat).config.sequence_limit.tokens, 3 * 8);
  EXPECT_EQ(m3({{"sparse_attention_config", nullptr}}).config.sequence_limit.tokens, 0);
}

TEST(MinimaxM3, layers_are_told_in_either_spelling_and_not_in_two_that_contradict_each_other) {
  const json names{
      {"num_hidden_layers", 2}, {"moe_layer_freq", nullptr}, {"sparse_attention_config", nullptr}};
  json kinds = names;
  kinds["mlp_layer_types"] = {"sparse", "dense"};
  EXPECT_EQ(m3(kinds).config.layers, (std::vector{MlpKind::kMoe, MlpKind::kDense}));
  EXPECT_EQ(m3(names).config.layers, (std::vector{MlpKind::kMoe, MlpKind::kMoe}));
  kinds["moe_layer_freq"] = {1, 1};
  expect_m3_refused(kinds, {"moe_layer_freq", "mlp_layer_types"});
  expect_m3_refused({{"moe_layer_freq", {0, 1}}}, {"moe_layer_freq", "60 layers"});
  kinds["moe_layer_freq"] = nullptr;
  kinds["mlp_layer_types"] = {"sparse", "other"};
  expect_m3_refused(kinds, {"mlp_layer_types", "'dense' or 'sparse'"});
}

std::set<std::string> names_of(const ModelDescription& model, ExpertLayout layout) {
  const KeyMap keys(model.manifest);
  std::set<std::string> names;
  for (const PublishedTensor& tensor : keys.published(layout)) {
    names.insert(tensor.name);
    EXPECT_TRUE(std::holds_alternative<KeyTarget>(keys.resolve(tensor.name))) << tensor.name;
  }
  return names;
}

TEST(MinimaxM3, is_published_in_the_names_of_its_wrapper) {
  const ModelDescription model = m3();
  const std::set<std::string> names = names_of(model, ExpertLayout::kPerExpert);
  for (const char* name : {"language_model.lm_head.weight", "language_model.model.embed_tokens.weight",
                           "language_model.model.layers.0.mlp.gate_proj.weight",
                           "language_model.model.layers.3.block_sparse_moe.gate.weight",
                           "language_model.model.layers.3.block_sparse_moe.e_score_correction_bias",
                           "language_model.model.layers.3.block_sparse_moe.experts.127.w2.weight",
                           "language_model.model.layers.3.block_sparse_moe.shared_experts.up_proj.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_EQ(model.manifest.wrapped_name("model.norm.weight"), "model.language_model.norm.weight");
  EXPECT_EQ(model.manifest.wrapped_name("lm_head.weight"), "lm_head.weight");
  EXPECT_TRUE(find_adaptable(model.manifest, "model.layers.0.mlp.gate_up_proj.weight"));
  EXPECT_FALSE(find_adaptable(model.manifest, "model.layers.0.mlp.up_proj.weight"));
}

TEST(MinimaxM3, by_itself_it_has_the_names_of_the_module_tree) {
  const std::set<std::string> names = names_of(m3_text(), ExpertLayout::kPerExpert);
  for (const char* name :
       {"lm_head.weight", "model.layers.0.mlp.gate_up_proj.weight", "model.layers.3.mlp.experts.gate_up_proj",
        "model.layers.3.mlp.shared_experts.gate_up_proj.weight", "model.layers.3.mlp.gate.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(MinimaxM3, indexers_and_the_vision_tower_are_carried_along) {
  const ModelDescription model = m3();
  const KeyMap keys(model.manifest);
  for (const char* name :
       {"language_model.model.layers.3.self_attn.index_q_proj.weight",
        "language_model.model.layers.3.self_attn.index_k_norm.weight",
        "model.language_model.layers.3.self_attn.indexer.q_proj.weight",
        "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight", "multi_modal_projector.linear_1.weight",
        "patch_merge_mlp.linear_2.bias", "language_model.model.layers.60.enorm.weight"}) {
    const auto found = keys.resolve(name);
    ASSERT_TRUE(std::holds_alternative<IgnoredKey>(found)) << name;
    EXPECT_TRUE(std::get<IgnoredKey>(found).part) << name;
  }
}

TEST(MinimaxM3, what_would_be_computed_wrongly_is_refused) {
  for (const char* key : {"use_gemma_norm", "use_qk_norm", "use_routing_bias"})
    expect_m3_refused({{key, false}}, {key, "found false", "true"});
  expect_m3_refused({{"hidden_act", "gelu"}}, {"hidden_act", "'swigluoai'"});
  expect_m3_refused({{"scoring_func", "softmax"}}, {"scoring_func", "'sigmoid'"});
  expect_m3_refused({{"qk_norm_type", "per_layer"}}, {"qk_norm_type", "'per_head'"});
  expect_m3_refused({{"attention_output_gate", true}}, {"attention_output_gate", "false"});
  expect_m3_refused({{"n_shared_experts", 2}}, {"n_shared_experts", "found 2", "1"});
  expect_m3_refused({{"swiglu_beta", 0.5}}, {"swiglu_beta", "found 0.5", "1"});
  expect_m3_refused({{"swiglu_limit", 0}}, {"swiglu_limit", "found 0", "above 0"});
  expect_m3_refused({{"router_jitter_noise", 0.1}}, {"router_jitter_noise", "found 0.1", "0"});
}

TEST(MinimaxM3, indexers_that_do_more_than_choose_are_refused) {
  const auto with = [](const char* key, const json& value) {
    return json{{"sparse_attention_config", {{key, value}}}};
  };
  expect_m3_refused(with("use_sparse_attention", false),
                    {"sparse_attention_config: use_sparse_attention", "true"});
  expect_m3_refused(with("sparse_disable_index_value", std::vector<int>(60, 0)),
                    {"sparse_disable_index_value", "1"});
  expect_m3_refused(with("sparse_disable_index_value", {1, 1}), {"sparse_disable_index_value", "60 layers"});
  expect_m3_refused(with("sparse_attention_freq", {0, 1}), {"sparse_attention_freq", "60 layers"});
  expect_m3_refused({{"index_topk_blocks", 8}}, {"sparse_topk_blocks", "found 16", "index_topk_blocks = 8"});
}

TEST(MinimaxM3, ties_of_the_wrapper_and_the_text_model_agree) {
  json config = m3_config({{"tie_word_embeddings", true}});
  expect_error(ExitCode::kBadData, {"tie_word_embeddings", "found false", "true"}, [&] {
    static_cast<void>(describe_model_text(config.dump(), "config.json", DType::kBFloat16));
  });
  config.erase("tie_word_embeddings");
  EXPECT_TRUE(describe_model_text(config.dump(), "config.json", DType::kBFloat16).config.tie_word_embeddings);
}

}  // namespace
}  // namespace sluice
