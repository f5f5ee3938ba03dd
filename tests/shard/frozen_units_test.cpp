#include "manifest/adapter.hpp"
#include "shard/arena.hpp"
#include "shard/initial_values.hpp"
#include "shard/models.hpp"
#include "shard/stage_plan.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing_models::moe;

constexpr std::int64_t kLowRank = 2;

/// With an adapter of every routed expert and of one layer's attention.
ParameterManifest adapted_moe() {
  ParameterManifest manifest = moe();
  AdapterDescription adapters;
  for (const TensorInfo& tensor : manifest.tensors())
    if (tensor.role == Role::kExpert || tensor.name == "model.layers.1.self_attn.q_proj.weight")
      adapters.tensors.push_back({tensor.name, kLowRank, 1});
  add_adapters(manifest, adapters);
  return manifest;
}

std::vector<std::string> names_of(const UnitLayouts& layouts) {
  std::vector<std::string> names;
  for (const FlatLayout& unit : layouts.units) names.push_back(unit.name());
  return names;
}

TEST(FrozenUnits, stand_beside_what_is_trained_of_the_same_part) {
  EXPECT_THAT(names_of(make_unit_layouts(adapted_moe())),
              ElementsAre("embedding.frozen", "layers.0.dense.frozen", "layers.0.experts",
                          "layers.0.experts.frozen", "layers.1.dense", "layers.1.dense.frozen",
                          "layers.1.experts", "layers.1.experts.frozen", "final.frozen"));
}

TEST(FrozenUnits, come_behind_all_trained_ones_in_an_arena_and_gradients_leave_them_out) {
  const ParameterManifest manifest = adapted_moe();
  const UnitLayouts layouts = make_unit_layouts(manifest);
  const ShardPlan plan(layouts, {2, 2});
  for (int rank = 0; rank < 2; ++rank) {
    for (int unit = 0; unit < static_cast<int>(layouts.units.size()); ++unit)
      EXPECT_EQ(plan.arena_offset(unit, rank) < plan.trained_elements(rank), plan.is_trained(unit));
    const ShardArena gradients(plan, rank, DType::kFloat32, MemoryKind::kPrivate, "gradients",
                               ShardArena::Units::kTrained);
    EXPECT_EQ(gradients.bytes(), plan.trained_elements(rank) * 4);
  }
}

TEST(FrozenUnits, have_the_adapters_of_an_expert_where_the_expert_is) {
  const ParameterManifest manifest = adapted_moe();
  const UnitLayouts layouts = make_unit_layouts(manifest);
  for (const int world : {2, 3}) {
    const ShardPlan plan(layouts, {world, world});
    for (std::int64_t expert = 0; expert < 3; ++expert)
      EXPECT_EQ(plan.owner(2, layouts.units[2].expert_begin(expert)),
                plan.owner(3, layouts.units[3].expert_begin(expert)));
  }
}

TEST(FrozenUnits, are_gathered_and_not_reduced) {
  const ParameterManifest manifest = adapted_moe();
  const UnitLayouts layouts = make_unit_layouts(manifest);
  const ShardPlan plan(layouts, {2, 1});
  const StagePlan stages = make_stage_plan(layouts, TiedHead::kNo);
  const Stage& layer = stages.layers[1];
  EXPECT_EQ(gathered_elements(layer, plan, 0).dense,
            layouts.units[4].elements() + layouts.units[5].elements());
  EXPECT_EQ(reduced_elements(layer, plan, 0).dense, layouts.units[4].elements());
  EXPECT_EQ(reduced_elements(layer, plan, 0).experts, layouts.units[6].elements());
  EXPECT_EQ(stages.gradient_elements(plan, 0), layouts.units[4].elements() + layouts.units[6].elements());
}

TEST(FrozenUnits, are_kept_whole_where_the_plan_says_so_but_for_experts) {
  const ParameterManifest manifest = adapted_moe();
  const UnitLayouts layouts = make_unit_layouts(manifest);
  const ShardPlan plan(layouts, {2, 1}, ShardAlignment::kLines, FrozenUnits::kKept);
  const StagePlan stages = make_stage_plan(layouts, TiedHead::kNo);
  std::int64_t kept = 0;
  for (int unit = 0; unit < static_cast<int>(layouts.units.size()); ++unit) {
    EXPECT_EQ(plan.is_kept(unit), !plan.is_trained(unit) && !plan.has_experts(unit)) << unit;
    if (plan.is_kept(unit)) kept += layouts.units[static_cast<std::size_t>(unit)].elements();
  }
  EXPECT_GT(kept, 0);
  EXPECT_EQ(stages.gather_bytes(plan, 0, 2).kept, 2 * kept);
  EXPECT_EQ(stages.gather_bytes(plan, 0, 2).dense, 2 * layouts.units[4].elements());
  EXPECT_EQ(stages.gather_bytes(ShardPlan(layouts, {2, 1}), 0, 2).kept, 0);
  EXPECT_FALSE(ShardPlan(layouts, {1, 1}, ShardAlignment::kLines, FrozenUnits::kKept).is_kept(0))
      << "a rank alone owns all units";
}

int lowest_trained(const std::vector<std::string>& trained) {
  ParameterManifest manifest = moe();
  for (int tensor = 0; tensor < static_cast<int>(manifest.tensors().size()); ++tensor)
    if (std::ranges::find(trained, manifest[tensor].name) == trained.end()) manifest.freeze(tensor);
  const UnitLayouts layouts = make_unit_layouts(manifest);
  return make_stage_plan(layouts, TiedHead::kNo).lowest_trained_layer(ShardPlan(layouts, {1, 1}));
}

TEST(FrozenUnits, end_the_backward_pass_at_the_lowest_trained_layer) {
  EXPECT_EQ(lowest_trained({"lm_head.weight"}), 2);
  EXPECT_EQ(lowest_trained({"lm_head.weight", "model.layers.1.mlp.gate.weight"}), 1);
  EXPECT_EQ(lowest_trained({"model.layers.0.mlp.experts.down_proj"}), 0);
  EXPECT_EQ(lowest_trained({"model.embed_tokens.weight"}), -1);
}

TEST(FrozenUnits, a_tied_head_is_frozen_with_its_owner) {
  ParameterManifest manifest = moe({.tied = true});
  manifest.freeze(*manifest.find("lm_head.weight"));
  EXPECT_TRUE(manifest[*manifest.find("model.embed_tokens.weight")].frozen);
}

/// What the ranks of a plan draw of a tensor, put together.
std::vector<float> drawn(int world, const char* name) {
  const ParameterManifest manifest = adapted_moe();
  const UnitLayouts layouts = make_unit_layouts(manifest);
  const ShardPlan plan(layouts, {world, world});
  const int tensor = *manifest.find(name);
  std::vector<float> whole(static_cast<std::size_t>(manifest[tensor].element_count()), 9);
  for (int rank = 0; rank < world; ++rank) {
    ShardArena arena(plan, rank, DType::kFloat32, MemoryKind::kPrivate, "weights");
    fill_adapters(arena, manifest,
                  [](const TensorInfo& info, std::int64_t begin, std::int64_t count, float* out) {
                    initial_values(info, 0, 5, begin, count, out);
                  });
    const auto* values = reinterpret_cast<const float*>(arena.data());
    plan.owned_runs(tensor, rank, [&](const ShardPlan::OwnedRun& run) {
      std::copy_n(values + run.arena_begin, run.count, whole.begin() + run.tensor_begin);
    });
  }
  return whole;
}

TEST(Adapters, begin_with_the_same_numbers_on_every_number_of_ranks) {
  const char* const a = "model.layers.0.mlp.experts.down_proj.lora_A";
  const std::vector<float> values = drawn(1, a);
  EXPECT_EQ(drawn(3, a), values);
  for (const float value : values) EXPECT_LE(std::abs(value), 0.5F);  // 4 columns
  EXPECT_GT(*std::ranges::max_element(values), 0.3F);
  EXPECT_LT(*std::ranges::min_element(values), -0.3F);
  EXPECT_THAT(drawn(2, "model.layers.0.mlp.experts.down_proj.lora_B"), testing::Each(0.0F));
}

}  // namespace
}  // namespace sluice
