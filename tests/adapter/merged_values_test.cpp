#include "adapter/merged_values.hpp"

#include "model/architecture.hpp"
#include "support/source_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sluice {
namespace {

const std::filesystem::path kModel = fixture_folder() / "qwen3-moe-tiny";

ParameterManifest manifest_with(const std::vector<std::string>& adapted) {
  ParameterManifest manifest = describe_model(kModel, DType::kFloat32).manifest;
  AdapterDescription adapters;
  for (const std::string& base : adapted) adapters.tensors.push_back({base, 3, 0.5});
  add_adapters(manifest, adapters);
  return manifest;
}

/// A tensor's elements, row-major, from the arena of one rank.
std::vector<float> elements_of(const ShardPlan& plan, const ShardValues& values,
                               const ParameterManifest& manifest, int tensor, std::int64_t most = INT64_MAX) {
  std::vector<float> out(static_cast<std::size_t>(manifest[tensor].element_count()));
  plan.owned_runs(tensor, 0, [&](const ShardPlan::OwnedRun& run) {
    for (std::int64_t done = 0; done < run.count; done += most) {
      const std::int64_t count = std::min(most, run.count - done);
      values.read(run.arena_begin + done, count, DType::kFloat32,
                  reinterpret_cast<std::byte*>(out.data() + run.tensor_begin + done));
    }
  });
  return out;
}

TEST(MergedValues, are_the_weights_and_scale_times_b_times_a_in_whatever_pieces_they_are_read) {
  const std::string projection = "model.layers.1.self_attn.o_proj.weight",
                    experts = "model.layers.1.mlp.experts.down_proj";
  const ParameterManifest manifest = manifest_with({projection, experts});
  const UnitLayouts layouts = make_unit_layouts(manifest);
  const ShardPlan plan(layouts, {1, 1});
  ShardArena arena(plan, 0, DType::kFloat32, MemoryKind::kPrivate, "values");
  auto* const floats = reinterpret_cast<float*>(arena.data());
  for (std::int64_t i = 0; i < plan.arena_elements(0); ++i)
    floats[i] = static_cast<float>(i * 2654435761 % 1001 - 500) / 64;
  const ArenaValues values(arena);
  const MergedValues merged(manifest, values, values);

  for (const std::string& name : {projection, experts}) {
    const int tensor = *manifest.find(name);
    const AdapterNames names = adapter_names(manifest, tensor);
    const std::vector<float> weights = elements_of(plan, values, manifest, tensor),
                             a = elements_of(plan, values, manifest, *manifest.find(names.a)),
                             b = elements_of(plan, values, manifest, *manifest.find(names.b));
    const std::vector<std::int64_t>& shape = manifest[tensor].shape;
    const std::int64_t in = shape.back(), out = shape[shape.size() - 2], rank = 3;
    std::vector<float> expected = weights;
    for (std::int64_t row = 0; row < std::ssize(weights) / in; ++row)
      for (std::int64_t k = 0; k < in; ++k)
        for (std::int64_t i = 0; i < rank; ++i)
          expected[static_cast<std::size_t>(row * in + k)] +=
              0.5f * b[static_cast<std::size_t>(row * rank + i)] *
              a[static_cast<std::size_t>((row / out * rank + i) * in + k)];
    for (const std::int64_t most : {std::int64_t{7}, std::int64_t{100}, std::int64_t{INT64_MAX}}) {
      const std::vector<float> found = elements_of(plan, merged, manifest, tensor, most);
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 1e-3) << name << " " << i << " " << most;
    }
    EXPECT_NE(expected, weights);
  }
  const int other = *manifest.find("model.layers.0.self_attn.o_proj.weight");
  EXPECT_EQ(elements_of(plan, merged, manifest, other), elements_of(plan, values, manifest, other));
}

}  // namespace
}  // namespace sluice
