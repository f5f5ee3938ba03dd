#include "shard/initial_values.hpp"

#include "weights/tiny_model.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

std::vector<float> values_of(Role role, InitialValues initial = InitialValues::kByRole) {
  std::vector<float> values(10'000);
  TensorInfo tensor;
  tensor.name = "a.weight";
  tensor.shape = {10'000};
  tensor.role = role;
  tensor.initial = initial;
  initial_values(tensor, 0.02f, 1, 0, 10'000, values.data());
  return values;
}

TEST(InitialValues, norms_are_one_and_the_rest_normal_unless_the_tensor_says_otherwise) {
  EXPECT_THAT(values_of(Role::kNorm), testing::Each(1.0f));
  EXPECT_THAT(values_of(Role::kNorm, InitialValues::kZeros), testing::Each(0.0f));
  EXPECT_THAT(values_of(Role::kAttention, InitialValues::kOnes), testing::Each(1.0f));
  double square = 0;
  for (const float value : values_of(Role::kAttention)) square += double{value} * value;
  EXPECT_NEAR(std::sqrt(square / 10'000), 0.02, 0.001);
}

TEST(InitialValues, logarithms_of_uniform_numbers_up_to_16) {
  double sum = 0;
  for (const float value : values_of(Role::kLinearAttention, InitialValues::kLogOfUniform16)) {
    EXPECT_LT(value, std::log(16.0f));
    sum += std::exp(value);
  }
  EXPECT_NEAR(sum / 10'000, 8.0, 0.2);
}

TEST(InitialValues, logarithms_of_uniform_numbers_from_1_to_16) {
  double sum = 0;
  for (const float value : values_of(Role::kLinearAttention, InitialValues::kLogOfUniformFrom1)) {
    EXPECT_GE(value, 0.0f);
    EXPECT_LT(value, std::log(16.0f));
    sum += std::exp(value);
  }
  EXPECT_NEAR(sum / 10'000, 8.5, 0.2);
}

TEST(InitialValues, shards_of_any_rank_count_hold_the_same_model) {
  const ParameterManifest manifest = test::manifest_of({.hidden = 36, .experts = 5, .expert_width = 20});
  const UnitLayouts layouts = make_unit_layouts(manifest);
  const ShardPlan one(layouts, {1, 1});
  ShardArena whole(one, 0, DType::kFloat32, MemoryKind::kPrivate, "weights");
  initialize_shards(whole, manifest, 0.02f, 42);
  for (const int ranks : {2, 3, 7}) {
    const ShardPlan plan(layouts, {ranks, 1});
    for (int rank = 0; rank < ranks; ++rank) {
      ShardArena shard(plan, rank, DType::kFloat32, MemoryKind::kPrivate, "weights");
      initialize_shards(shard, manifest, 0.02f, 42);
      for (int unit = 0; unit < static_cast<int>(layouts.units.size()); ++unit) {
        const Range owned = plan.owned(unit, rank);
        const auto* expected = reinterpret_cast<const float*>(whole.unit_data(unit)) + owned.begin;
        const auto* found = reinterpret_cast<const float*>(shard.unit_data(unit));
        ASSERT_TRUE(std::equal(found, found + owned.count(), expected)) << ranks << " ranks, unit " << unit;
      }
    }
  }
}

}  // namespace
}  // namespace sluice
