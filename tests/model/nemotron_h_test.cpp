#include "model/families/nemotron_h.hpp"

#include "manifest/adapter.hpp"
#include "manifest/key_map.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of Nemotron 3 Nano with changes: keys set to null are taken away.
json nano_config(const json& changes) {
  json config = published_config("Nemotron-3-Nano-30B-A3B");
  config.merge_patch(changes);
  return config;
}
ModelDescription nano(const json& changes = json::object()) {
  return describe_model_text(nano_config(changes).dump(), "config.json", DType::kBFloat16);
}

void expect_nano_refused(const json& changes, const std::vector<std::string>& parts) {
  SCOPED_TRACE(changes.dump());
  expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(nano(changes)); });
}

/// A letter for the MLP of each layer: D dense, E experts, - none.
std::string mlp_kinds(const ModelConfig& config) {
  std::string kinds;
  for (const MlpKind kind : config.layers) kinds += "-DE"[static_cast<std::size_t>(kind)];
  return kinds;
}

TEST(NemotronH, a_layer_is_one_block_by_the_letters_of_the_pattern) {
  const ModelDescription model = nano();
  EXPECT_EQ(block_kinds(model.config), "M-M-MF-M-M-MF-M-M-MF-M-M-MF-M-M-MF-M-M-M-MF-M-M-M-M-");
  EXPECT_EQ(mlp_kinds(model.config), "-E-E--E-E-E--E-E-E--E-E-E--E-E-E--E-E-E-E--E-E-E-E-E");
  EXPECT_EQ(model.config.rotary.dim, 0);
  EXPECT_EQ(model.config.padding_token, -1);
  EXPECT_EQ(shape_of(model, "model.layers.0.mamba.in_proj.weight"),
            (Shape{2 * 4096 + 2 * 8 * 128 + 64, 2688}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.experts.up_proj"), (Shape{128, 1856, 2688}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.shared_experts.up_proj.weight"), (Shape{3712, 2688}));
  EXPECT_EQ(shape_of(model, "model.layers.5.self_attn.q_proj.weight"), (Shape{32 * 128, 2688}));
  for (const char* absent :
       {"model.layers.0.post_attention_layernorm.weight", "model.layers.1.input_layernorm.weight",
        "model.layers.1.mlp.experts.gate_up_proj", "model.layers.1.mlp.shared_experts.gate_proj.weight"})
    EXPECT_EQ(shape_of(model, absent), (Shape{-1})) << absent;
}

TEST(NemotronH, lists_of_names_say_what_a_pattern_says_and_come_before_it) {
  const std::vector<std::string> own{"mamba", "moe", "attention", "mlp"},
      later{"linear_attention", "moe", "full_attention", "mlp"};
  for (const char* key : {"layers_block_type", "layer_types"})
    for (const auto& names : {own, later}) {
      const ModelConfig config = nano({{key, names}, {"num_hidden_layers", nullptr}}).config;
      EXPECT_EQ(block_kinds(config), "M-F-") << key;
      EXPECT_EQ(mlp_kinds(config), "-E-D") << key;
    }
  const json none{{"hybrid_override_pattern", nullptr}, {"num_hidden_layers", nullptr}};
  EXPECT_EQ(block_kinds(nano(none).config), "M-F-");
  EXPECT_EQ(mlp_kinds(nano(none).config), "-E-D");
}

TEST(NemotronH, experts_may_have_a_width_of_their_own_between_two_projections) {
  const ModelDescription model = nano({{"moe_latent_size", 1024}});
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.experts.up_proj"), (Shape{128, 1856, 1024}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.experts.down_proj"), (Shape{128, 1024, 1856}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.fc1_latent_proj.weight"), (Shape{1024, 2688}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.shared_experts.up_proj.weight"), (Shape{3712, 2688}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.gate.weight"), (Shape{128, 2688}));
  const KeyMap keys(model.manifest);
  const auto out = std::get<KeyTarget>(keys.resolve("backbone.layers.1.mixer.fc2_latent_proj.weight"));
  EXPECT_EQ(out.shape, (Shape{2688, 1024}));
  EXPECT_TRUE(find_adaptable(model.manifest, "model.layers.1.mixer.fc1_latent_proj.weight"));
}

TEST(NemotronH, checkpoints_have_names_of_their_own) {
  const ModelDescription model = nano({{"hybrid_override_pattern", "ME*-"}, {"num_hidden_layers", 4}});
  std::set<std::string> names;
  for (const PublishedTensor& tensor : KeyMap(model.manifest).published(ExpertLayout::kPerExpert))
    names.insert(tensor.name);
  for (const char* name :
       {"backbone.embeddings.weight", "backbone.layers.0.norm.weight", "backbone.layers.0.mixer.A_log",
        "backbone.layers.0.mixer.D", "backbone.layers.0.mixer.dt_bias", "backbone.layers.0.mixer.conv1d.bias",
        "backbone.layers.0.mixer.norm.weight", "backbone.layers.1.norm.weight",
        "backbone.layers.1.mixer.gate.weight", "backbone.layers.1.mixer.gate.e_score_correction_bias",
        "backbone.layers.1.mixer.experts.127.up_proj.weight",
        "backbone.layers.1.mixer.shared_experts.down_proj.weight", "backbone.layers.2.mixer.o_proj.weight",
        "backbone.layers.3.mixer.up_proj.weight", "backbone.norm_f.weight", "lm_head.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_EQ(names.size(), 1 + 9 + (2 + 2 * 128 + 2 + 1) + 5 + 3 + 2U);
  const KeyMap keys(model.manifest);
  for (const std::string& name : names)
    EXPECT_TRUE(std::holds_alternative<KeyTarget>(keys.resolve(name))) << name;
  EXPECT_EQ(model.manifest.wrapped_name("model."), "model.") << "transformers' module tree";
  EXPECT_TRUE(std::holds_alternative<IgnoredKey>(keys.resolve("mtp.layers.0.mixer.q_proj.weight")));
}

TEST(NemotronH, steps_of_mamba_2_are_limited_by_time_step_limit_alone) {
  const Mamba2Config mamba = nano().config.mamba2;
  EXPECT_EQ(mamba.least_step, 0) << "whatever time_step_min says";
  EXPECT_TRUE(std::isinf(mamba.largest_step));
  EXPECT_EQ(nano({{"time_step_limit", {0.25, 0.5}}}).config.mamba2.largest_step, 0.5);
  EXPECT_EQ(nano({{"mamba_dt_limit", {0.25, 0.75}}}).config.mamba2.largest_step, 0.75);
}

TEST(NemotronH, projections_and_experts_can_be_adapted) {
  const ModelDescription model = nano({{"hybrid_override_pattern", "ME*-"}, {"num_hidden_layers", 4}});
  std::set<std::string> names;
  for (const AdaptableWeight& weight : adaptable_weights(model.manifest))
    names.insert(model.manifest.tree_name(weight.info.name));
  const std::string layers = "model.layers.";
  EXPECT_EQ(names,
            (std::set<std::string>{"lm_head.weight", layers + "0.mixer.in_proj.weight",
                                   layers + "0.mixer.out_proj.weight", layers + "1.mixer.gate.weight",
                                   layers + "1.mixer.experts.up_proj", layers + "1.mixer.experts.down_proj",
                                   layers + "1.mixer.shared_experts.up_proj.weight",
                                   layers + "1.mixer.shared_experts.down_proj.weight",
                                   layers + "2.mixer.q_proj.weight", layers + "2.mixer.k_proj.weight",
                                   layers + "2.mixer.v_proj.weight", layers + "2.mixer.o_proj.weight",
                                   layers + "3.mixer.up_proj.weight", layers + "3.mixer.down_proj.weight"}));
}

TEST(NemotronH, what_no_block_computes_is_refused) {
  expect_nano_refused({{"mlp_hidden_act", "silu"}}, {"mlp_hidden_act", "silu"});
  expect_nano_refused({{"mamba_hidden_act", "relu"}}, {"mamba_hidden_act", "relu"});
  expect_nano_refused({{"sliding_window", 128}}, {"sliding_window", "128"});
  for (const char* key : {"mlp_bias", "use_bias", "mamba_proj_bias", "attention_bias", "residual_in_fp32",
                          "tie_word_embeddings"})
    expect_nano_refused({{key, true}}, {key, "true"});
  expect_nano_refused({{"n_groups", 5}}, {"n_groups", "5"});
  expect_nano_refused({{"num_hidden_layers", 51}}, {"num_hidden_layers", "51", "52"});
  expect_nano_refused({{"hybrid_override_pattern", "MEX"}}, {"hybrid_override_pattern", "MEX"});
  expect_nano_refused({{"hybrid_override_pattern", ""}}, {"hybrid_override_pattern"});
  expect_nano_refused({{"layers_block_type", {"mamba", "conv"}}}, {"layers_block_type", "conv"});
}

}  // namespace
}  // namespace sluice
