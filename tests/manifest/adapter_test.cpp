#include "manifest/adapter.hpp"

#include "base/error.hpp"
#include "manifest/adapter_targets.hpp"
#include "manifest/key_map.hpp"
#include "manifest/name_pattern.hpp"

#include <gmock/gmock.h>

#include <array>
#include <string>
#include <vector>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ParameterManifest some_model() {
  ParameterManifest manifest;
  const auto add = [&](std::string name, std::vector<std::int64_t> shape, Role role, int layer) {
    manifest.add(
        {.name = std::move(name), .shape = std::move(shape), .role = role, .layer = layer, .tied_to = {}});
  };
  add("model.embed_tokens.weight", {11, 5}, Role::kEmbedding, -1);
  add("model.layers.0.self_attn.q_proj.weight", {6, 5}, Role::kAttention, 0);
  add("model.layers.0.self_attn.q_norm.weight", {6}, Role::kNorm, 0);
  add("model.layers.0.linear_attn.conv1d.weight", {6, 1, 4}, Role::kLinearAttention, 0);
  add("model.layers.0.mlp.gate.weight", {3, 5}, Role::kRouter, 0);
  add("model.layers.0.mlp.experts.gate_up_proj", {3, 8, 5}, Role::kExpert, 0);
  add("model.layers.0.mlp.experts.down_proj", {3, 5, 4}, Role::kExpert, 0);
  add("model.layers.0.mlp.shared_expert.up_proj.weight", {4, 5}, Role::kSharedExpert, 0);
  add("lm_head.weight", {11, 5}, Role::kHead, -1);
  return manifest;
}

std::vector<std::string> targets(const std::vector<std::string>& asked) {
  return adapter_targets(some_model(), asked);
}

TEST(Adapter, adds_a_pair_for_each_weight_and_freezes_the_rest) {
  ParameterManifest manifest = some_model();
  const std::int64_t parameters = manifest.parameter_count();
  add_adapters(manifest, {{{"model.layers.0.self_attn.q_proj.weight", 2, 0.5},
                           {"model.layers.0.mlp.experts.gate_up_proj", 4, 2}},
                          0});
  const auto tensor = [&](const char* name) { return manifest[*manifest.find(name)]; };
  EXPECT_THAT(tensor("model.layers.0.self_attn.q_proj.lora_A.weight").shape, ElementsAre(2, 5));
  EXPECT_THAT(tensor("model.layers.0.self_attn.q_proj.lora_B.weight").shape, ElementsAre(6, 2));
  EXPECT_THAT(tensor("model.layers.0.mlp.experts.gate_up_proj.lora_A").shape, ElementsAre(3, 4, 5));
  EXPECT_THAT(tensor("model.layers.0.mlp.experts.gate_up_proj.lora_B").shape, ElementsAre(3, 8, 4));
  EXPECT_EQ(tensor("model.layers.0.mlp.experts.gate_up_proj.lora_B").role, Role::kExpert);
  EXPECT_EQ(tensor("model.layers.0.mlp.experts.gate_up_proj.lora_B").scale, 2);
  EXPECT_TRUE(tensor("lm_head.weight").frozen);
  EXPECT_EQ(manifest.trained_parameter_count(), 2 * 5 + 6 * 2 + 3 * 4 * 5 + 3 * 8 * 4);
  EXPECT_EQ(manifest.parameter_count(), parameters + manifest.trained_parameter_count());
  EXPECT_EQ(manifest.checkpoint_tensors().size(), some_model().stored_tensors().size());
}

/// Two heads, of each of which q, k and v follow each other where they are published.
ParameterManifest joined_model() {
  ParameterManifest manifest;
  for (const auto* name : {"q", "kv"})
    manifest.add({.name = name,
                  .shape = {name == std::string("q") ? 4 : 8, 5},
                  .role = Role::kAttention,
                  .layer = 0,
                  .tied_to = {}});
  const std::array<JoinedRows, 3> parts{{{"q", 0, 2}, {"kv", 0, 2}, {"kv", 4, 2}}};
  manifest.add_joined("qkv.weight", 2, parts);
  return manifest;
}

TEST(Adapter, of_a_matrix_that_is_published_joined_has_one_a_and_of_b_the_rows_of_each_tensor) {
  ParameterManifest manifest = joined_model();
  EXPECT_THAT(adapter_targets(manifest, std::vector<std::string>{"qkv"}), ElementsAre("qkv.weight"));
  add_adapters(manifest, {{{"qkv.weight", 3, 0.5}}, 0});
  const auto shape = [&](const char* name) { return manifest[manifest.find(name).value()].shape; };
  EXPECT_THAT(shape("qkv.lora_A.weight"), ElementsAre(3, 5));
  EXPECT_THAT(shape("q.lora_B"), ElementsAre(4, 3));
  EXPECT_THAT(shape("kv.lora_B"), ElementsAre(8, 3));
  EXPECT_EQ(manifest.tensors().size(), 5u);
  EXPECT_EQ(adapter_names(manifest, *manifest.find("kv")).a, "qkv.lora_A.weight");
}

TEST(Adapter, belongs_to_no_part_of_a_joined_matrix) {
  EXPECT_FALSE(find_adaptable(joined_model(), "q"));
  EXPECT_TRUE(find_adaptable(joined_model(), "qkv.weight"));
  EXPECT_THROW(static_cast<void>(adapter_targets(joined_model(), std::vector<std::string>{"kv"})), Error);
}

TEST(Adapter, is_part_of_the_structure_that_ranks_agree_on) {
  const auto hash = [](std::int64_t rank, double scale) {
    ParameterManifest manifest = some_model();
    add_adapters(manifest, {{{"lm_head.weight", rank, scale}}, 0});
    return manifest.structure_hash().hex();
  };
  EXPECT_NE(hash(2, 1), some_model().structure_hash().hex());
  EXPECT_NE(hash(2, 1), hash(3, 1));
  EXPECT_NE(hash(2, 1), hash(2, 0.5));
}

TEST(Adapter, is_no_part_of_a_checkpoint_of_the_model) {
  ParameterManifest manifest = some_model();
  add_adapters(manifest, {{{"lm_head.weight", 2, 1}}, 0});
  const KeyMap keys(manifest);
  EXPECT_TRUE(std::holds_alternative<UnknownKey>(keys.resolve("lm_head.lora_A.weight")));
  EXPECT_EQ(keys.published(ExpertLayout::kFused).size(), some_model().stored_tensors().size());
}

TEST(AdapterTargets, are_all_projections_but_head_and_router_those_of_routed_experts_among_them) {
  EXPECT_THAT(
      targets({"all-linear"}),
      ElementsAre("model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.experts.gate_up_proj",
                  "model.layers.0.mlp.experts.down_proj", "model.layers.0.mlp.shared_expert.up_proj.weight"));
}

TEST(AdapterTargets, are_the_modules_among_them_without_routed_experts) {
  EXPECT_THAT(targets({"linear-modules"}), ElementsAre("model.layers.0.self_attn.q_proj.weight",
                                                       "model.layers.0.mlp.shared_expert.up_proj.weight"));
}

TEST(AdapterTargets, are_not_what_peft_refuses_unless_they_name_it) {
  ParameterManifest manifest = some_model();
  manifest.set_refused_by_peft(".q_proj.weight");
  const auto of = [&](const std::vector<std::string>& asked) { return adapter_targets(manifest, asked); };
  EXPECT_THAT(of({"linear-modules"}), ElementsAre("model.layers.0.mlp.shared_expert.up_proj.weight"));
  EXPECT_EQ(of({"all-linear"}).size(), 3U);
  EXPECT_THAT(of({"q_proj"}), ElementsAre("model.layers.0.self_attn.q_proj.weight"));
  EXPECT_EQ(of({"all-linear", "q_proj"}).size(), 4U);
}

TEST(AdapterTargets, are_names_of_modules_or_parameters_or_their_ends) {
  EXPECT_THAT(targets({"lm_head", "q_proj", "mlp.gate", "experts.down_proj"}),
              ElementsAre("model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.gate.weight",
                          "model.layers.0.mlp.experts.down_proj", "lm_head.weight"));
}

TEST(AdapterTargets, are_patterns_of_names) {
  EXPECT_THAT(targets({"*.experts.*"}),
              ElementsAre("model.layers.0.mlp.experts.gate_up_proj", "model.layers.0.mlp.experts.down_proj"));
}

TEST(AdapterTargets, that_mean_nothing_are_refused_by_name) {
  for (const char* target : {"proj", "embed_tokens", "q_norm", "conv1d", "*.up_projs.*"}) {
    try {
      static_cast<void>(targets({"q_proj", target}));
      ADD_FAILURE() << target;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadConfig);
      EXPECT_THAT(error.what(), HasSubstr(target));
    }
  }
}

TEST(AdaptedShares, are_of_the_projections_of_which_less_than_half_has_adapters) {
  const auto scarce = [](const std::vector<std::string>& names) {
    AdapterDescription adapters;
    for (const std::string& name : names) adapters.tensors.push_back({name, 2, 1});
    return scarcely_adapted_text(some_model(), adapters);
  };
  EXPECT_EQ(scarce({}), "") << "without adapters";
  EXPECT_EQ(scarce(targets({"all-linear"})), "") << "head and router have none, and are not counted";
  EXPECT_EQ(scarce(targets({"linear-modules"})), "0.0 % of expert");
  EXPECT_EQ(scarce({"model.layers.0.mlp.experts.down_proj"}),
            "0.0 % of attention, 33.3 % of expert, 0.0 % of shared_expert");
}

TEST(NamePattern, has_stars_for_any_characters_and_question_marks_for_one) {
  EXPECT_TRUE(matches_pattern("a.*.b", "a.1.2.b"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("a*b*c", "aXbYbZc"));
  EXPECT_TRUE(matches_pattern("layers.?.x", "layers.7.x"));
  EXPECT_FALSE(matches_pattern("layers.?.x", "layers.17.x"));
  EXPECT_FALSE(matches_pattern("a.*", "ba.c"));
  EXPECT_FALSE(matches_pattern("a*b", "abc"));
}

}  // namespace
}  // namespace sluice
