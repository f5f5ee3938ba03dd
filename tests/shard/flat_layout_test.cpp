#include "shard/flat_layout.hpp"

#include "shard/models.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice {
namespace {

using testing_models::moe;

const FlatLayout& unit_named(const UnitLayouts& layouts, std::string_view name) {
  return *std::ranges::find(layouts.units, name, &FlatLayout::name);
}

TEST(UnitLayouts, are_grouped_in_the_order_of_the_forward_pass) {
  std::vector<std::string> names;
  for (const FlatLayout& unit : make_unit_layouts(moe()).units) names.push_back(unit.name());
  EXPECT_EQ(names, (std::vector<std::string>{"embedding", "layers.0.dense", "layers.0.experts",
                                             "layers.1.dense", "layers.1.experts", "final"}));
}

TEST(UnitLayouts, give_every_stored_tensor_one_home_and_ties_the_home_of_their_owner) {
  const ParameterManifest manifest = moe({.tied = true});
  const UnitLayouts layouts = make_unit_layouts(manifest);
  const auto home = [&](const char* name) {
    return layouts.homes[static_cast<std::size_t>(*manifest.find(name))];
  };
  EXPECT_EQ(home("lm_head.weight").unit, home("model.embed_tokens.weight").unit);
  EXPECT_EQ(home("lm_head.weight").placement, home("model.embed_tokens.weight").placement);
  EXPECT_EQ(home("inv_freq").unit, -1);
  for (const int tensor : manifest.stored_tensors())
    EXPECT_GE(layouts.homes[static_cast<std::size_t>(tensor)].unit, 0);
}

/// How often each element of a unit is claimed by a tensor.
std::vector<int> claims(const FlatLayout& unit, const ParameterManifest& manifest) {
  std::vector<int> counts(static_cast<std::size_t>(unit.elements()), 0);
  for (const Placement& placement : unit.placements())
    FlatLayout::for_each_run(placement, 0, manifest[placement.tensor].element_count(), [&](const Run& run) {
      for (std::int64_t i = 0; i < run.count; ++i) ++counts[static_cast<std::size_t>(run.unit_begin + i)];
    });
  return counts;
}

TEST(FlatLayout, no_element_belongs_to_two_tensors_and_every_tensor_fits) {
  const ParameterManifest manifest = moe();
  for (const FlatLayout& unit : make_unit_layouts(manifest).units) {
    const std::vector<int> counts = claims(unit, manifest);
    EXPECT_LE(*std::ranges::max_element(counts), 1) << unit.name();
    std::int64_t elements = 0;
    for (const Placement& placement : unit.placements())
      elements += manifest[placement.tensor].element_count();
    EXPECT_EQ(std::ranges::count(counts, 1), elements) << unit.name();
  }
}

TEST(FlatLayout, an_expert_is_one_range_with_gate_up_before_down) {
  const ParameterManifest manifest = moe();
  const UnitLayouts layouts = make_unit_layouts(manifest);
  const FlatLayout& experts = unit_named(layouts, "layers.1.experts");
  const Placement& gate_up = experts.placement_of(*manifest.find("model.layers.1.mlp.experts.gate_up_proj"));
  const Placement& down = experts.placement_of(*manifest.find("model.layers.1.mlp.experts.down_proj"));
  EXPECT_EQ(gate_up.blocks, 3);
  EXPECT_EQ(gate_up.block_elements, 2 * 4 * 5);
  EXPECT_EQ(gate_up.block_stride, down.block_stride);
  EXPECT_EQ(gate_up.block_stride * 3, experts.elements());
  EXPECT_GE(down.offset, gate_up.offset + gate_up.block_elements);
  EXPECT_LE(down.offset + down.block_elements, gate_up.block_stride);
}

TEST(FlatLayout, blocks_of_state_make_cuts_rarer_and_rows_no_longer) {
  const ParameterManifest manifest = moe({.hidden = 6, .width = 9});
  const UnitLayouts layouts = make_unit_layouts(manifest, 4);
  const auto place = [&](const char* unit, const char* tensor) {
    return unit_named(layouts, unit).placement_of(*manifest.find(tensor));
  };
  EXPECT_EQ(place("embedding", "model.embed_tokens.weight").row_elements, 6);
  EXPECT_EQ(place("embedding", "model.embed_tokens.weight").granule, 12);
  EXPECT_EQ(place("layers.0.experts", "model.layers.0.mlp.experts.down_proj").row_elements, 9);
  EXPECT_EQ(place("layers.0.experts", "model.layers.0.mlp.experts.down_proj").granule, 36);
  EXPECT_EQ(place("final", "model.norm.weight").row_elements, 6);
}

TEST(FlatLayout, runs_of_a_range_follow_each_other_and_cross_blocks) {
  const Placement placement{0, 100, 3, 10, 64, 5};
  // testing::Test has a member of the name Run.
  std::vector<sluice::Run> runs;
  FlatLayout::for_each_run(placement, 7, 15, [&](const sluice::Run& run) { runs.push_back(run); });
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].tensor_begin, 7);
  EXPECT_EQ(runs[0].unit_begin, 107);
  EXPECT_EQ(runs[0].count, 3);
  EXPECT_EQ(runs[1].unit_begin, 164);
  EXPECT_EQ(runs[1].count, 10);
  EXPECT_EQ(runs[2].unit_begin, 228);
  EXPECT_EQ(runs[2].count, 2);
}

TEST(FlatLayout, cuts_fall_on_rows_or_borders_and_never_above_the_wish) {
  const ParameterManifest manifest = moe();
  for (const FlatLayout& unit : make_unit_layouts(manifest).units) {
    for (std::int64_t position = 0; position <= unit.elements(); ++position) {
      const std::int64_t cut = unit.cut_at_or_below(position);
      ASSERT_LE(cut, position);
      for (const Placement& placement : unit.placements()) {
        const std::int64_t inside = (cut - placement.offset) % placement.block_stride;
        const bool splits = cut > placement.offset &&
                            (cut - placement.offset) / placement.block_stride < placement.blocks &&
                            inside > 0 && inside < placement.block_elements;
        ASSERT_TRUE(!splits || inside % placement.granule == 0) << unit.name() << " at " << position;
      }
    }
  }
}

}  // namespace
}  // namespace sluice
