#include "plan/optimizer_layout.hpp"

#include "model/small_model.hpp"
#include "plan/gradient_memory.hpp"
#include "plan/optimizer_bytes.hpp"
#include "plan/optimizer_fit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace sluice {
namespace {

constexpr OptimizerMode kSmallest{OptimizerKind::kAdamW, StateFormat::kInt8, MasterFormat::k24Bit,
                                  GradientMode::kRelease, ClipRule::kUnit};

UnitLayouts layouts_of(const test::SmallModel& model) {
  return make_unit_layouts(model.description.manifest, kStateBlock);
}

TEST(OptimizerLayout, covers_every_parameter_once_on_any_number_of_ranks) {
  const test::SmallModel model;
  const UnitLayouts layouts = layouts_of(model);
  const ParameterManifest& manifest = model.description.manifest;
  for (const int world : {1, 2, 3, 4})
    for (const int expert_parallel : {1, world}) {
      const ShardPlan plan(layouts, {.world = world, .expert_parallel = expert_parallel});
      std::map<int, std::int64_t> elements;
      for (int rank = 0; rank < world; ++rank) {
        const OptimizerLayout layout(manifest, plan, rank, kSmallest, DType::kBFloat16);
        for (int unit = 0; unit < layout.units(); ++unit)
          for (const MatrixState& matrix : layout.matrices(unit))
            elements[matrix.tensor] += matrix.owned.count();
      }
      for (const int tensor : manifest.stored_tensors())
        EXPECT_EQ(elements[tensor], manifest[tensor].element_count()) << manifest[tensor].name;
    }
}

TEST(OptimizerBytes, are_those_of_the_layout_on_every_rank) {
  for (const auto& changes : {nlohmann::json::object(), test::hybrid_changes()}) {
    const test::SmallModel model(changes);
    const UnitLayouts layouts = layouts_of(model);
    const ParameterManifest& manifest = model.description.manifest;
    for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdafactor})
      for (const OptimizerMode& mode : fitting_modes({.kind = kind}, DType::kBFloat16))
        for (const int world : {1, 3, 4, 50})
          for (const int expert_parallel : {1, world})
            for (const ShardAlignment alignment : {ShardAlignment::kLines, ShardAlignment::kPages}) {
              const ShardPlan plan(layouts, {.world = world, .expert_parallel = expert_parallel}, alignment);
              const OptimizerBytes bytes(manifest, plan, mode, DType::kBFloat16);
              for (int rank = 0; rank < world; ++rank) {
                const OptimizerLayout layout(manifest, plan, rank, mode, DType::kBFloat16);
                std::vector<std::int64_t> expected;
                for (int unit = 0; unit < layout.units(); ++unit)
                  expected.push_back(layout.unit_bytes(unit).count());
                EXPECT_EQ(bytes.of_units(rank), expected) << rank << " of " << world;
              }
            }
  }
}

TEST(OptimizerLayout, cuts_matrices_between_blocks_of_8_bit_state) {
  const test::SmallModel model;
  const UnitLayouts layouts = layouts_of(model);
  const ShardPlan plan(layouts, {.world = 3});
  for (int rank = 0; rank < 3; ++rank) {
    const OptimizerLayout layout(model.description.manifest, plan, rank, kSmallest, DType::kBFloat16);
    for (int unit = 0; unit < layout.units(); ++unit)
      for (const MatrixState& matrix : layout.matrices(unit))
        EXPECT_TRUE(matrix.state != StateFormat::kInt8 || matrix.owned.count() == 0 ||
                    matrix.owned.begin % kStateBlock == 0);
  }
}

TEST(OptimizerLayout, keeps_router_norms_and_vectors_in_float32) {
  const test::SmallModel model(test::hybrid_changes());
  const ShardPlan plan(model.layouts, {.world = 1});
  const OptimizerLayout layout(model.description.manifest, plan, 0, kSmallest, DType::kBFloat16);
  for (int unit = 0; unit < layout.units(); ++unit)
    for (const MatrixState& matrix : layout.matrices(unit)) {
      const TensorInfo& tensor = model.description.manifest[matrix.tensor];
      const bool is_small =
          tensor.role == Role::kRouter || tensor.role == Role::kNorm || matrix.shape.is_vector();
      EXPECT_EQ(matrix.state == StateFormat::kFloat32, is_small) << tensor.name;
      EXPECT_EQ(matrix.master == MasterFormat::kFloat32, is_small) << tensor.name;
    }
}

TEST(OptimizerLayout, keeps_float32_parameters_whole_and_exact_on_every_rank_in_any_mode) {
  ParameterManifest manifest;
  manifest.add({"w", {64, 32}, DType::kBFloat16, Role::kDenseMlp, 0, TensorKind::kParameter, {}});
  manifest.add(
      {"frozen", {5}, DType::kFloat32, Role::kLinearAttention, 0, TensorKind::kFloat32Parameter, {}});
  manifest.add(
      {"a", {1, 1, 7, 1}, DType::kFloat32, Role::kLinearAttention, 0, TensorKind::kFloat32Parameter, {}});
  manifest.freeze(1);
  const UnitLayouts layouts = make_unit_layouts(manifest, kStateBlock);
  for (const OptimizerMode& mode : {kSmallest, OptimizerMode{}})
    for (int rank = 0; rank < 3; ++rank) {
      const ShardPlan plan(layouts, {.world = 3});
      const OptimizerLayout layout(manifest, plan, rank, mode, DType::kBFloat16);
      ASSERT_EQ(layout.matrices(plan.whole_unit()).size(), 1);
      const MatrixState& matrix = layout.matrices(plan.whole_unit()).front();
      EXPECT_EQ(matrix.tensor, 2);
      EXPECT_EQ(matrix.owned.count(), 7);
      EXPECT_EQ(matrix.state, StateFormat::kFloat32);
      EXPECT_FALSE(matrix.decays);
      EXPECT_LT(matrix.offset(StateArray::kMaster), 0) << "float32 weights are their own master";
      EXPECT_EQ(OptimizerBytes(manifest, plan, mode, DType::kBFloat16).of_units(rank).back(),
                layout.unit_bytes(plan.whole_unit()).count());
      EXPECT_EQ(plan.owned(plan.whole_unit(), rank).begin, 5);
      EXPECT_EQ(plan.owned(plan.whole_unit(), rank).end, 12);
    }
}

TEST(OptimizerState, of_the_biases_of_experts_is_that_of_a_vector_for_each) {
  TensorInfo biases;
  biases.shape = {4, 512};
  biases.role = Role::kExpert;
  EXPECT_TRUE(matrix_shape(biases).is_vector());
  EXPECT_EQ(matrix_shape(biases).columns, 512);
}

TEST(OptimizerState, decays_matrices_of_one_row_and_convolutions_and_no_vector_of_an_expert) {
  const auto decays = [](std::vector<std::int64_t> shape, Role role) {
    TensorInfo tensor;
    tensor.shape = std::move(shape);
    tensor.role = role;
    return is_decayed(tensor);
  };
  EXPECT_TRUE(decays({4, 256, 512}, Role::kExpert));
  EXPECT_TRUE(decays({4, 1, 512}, Role::kExpert)) << "an adapter of rank 1";
  EXPECT_TRUE(decays({1, 512}, Role::kSharedExpert)) << "a gate";
  EXPECT_TRUE(decays({64, 1, 4}, Role::kLinearAttention)) << "conv1d";
  EXPECT_FALSE(decays({4, 512}, Role::kExpert)) << "biases of experts";
  EXPECT_FALSE(decays({512}, Role::kNorm));
}

/// Bytes of an element of a matrix of an expert.
double bytes_of(const OptimizerMode& mode) {
  TensorInfo expert;
  expert.shape = {4, 256, 512};
  expert.role = Role::kExpert;
  const MatrixShape shape = matrix_shape(expert);
  double bytes = 0;
  for (const StatePart& part : describe_state(mode, DType::kBFloat16, expert).parts)
    bytes += static_cast<double>(part_count(part, shape, shape.elements()) * size_of(part.dtype));
  return bytes / static_cast<double>(shape.elements());
}

TEST(OptimizerState, takes_the_bytes_that_its_formats_say) {
  const auto bytes = [](OptimizerKind kind, StateFormat state, MasterFormat master) {
    return bytes_of({.kind = kind, .state = state, .master = master});
  };
  EXPECT_EQ(bytes(OptimizerKind::kAdamW, StateFormat::kFloat32, MasterFormat::kFloat32), 10);
  EXPECT_EQ(bytes(OptimizerKind::kAdamW, StateFormat::kBFloat16, MasterFormat::kFloat32), 6);
  EXPECT_EQ(bytes(OptimizerKind::kAdamW, StateFormat::kInt8, MasterFormat::k24Bit), 3 + 8.0 / kStateBlock);
  EXPECT_EQ(bytes(OptimizerKind::kAdamW, StateFormat::kInt8, MasterFormat::kNone), 2 + 8.0 / kStateBlock);
  EXPECT_EQ(bytes(OptimizerKind::kLion, StateFormat::kInt8, MasterFormat::kNone), 1 + 4.0 / kStateBlock);
  EXPECT_EQ(bytes(OptimizerKind::kAdafactor, StateFormat::kFactored, MasterFormat::kNone),
            4.0 * (256 + 512) / (256 * 512));
}

TEST(GradientMemory, is_one_experts_where_they_are_finished_in_turn) {
  const test::SmallModel model;
  const ShardPlan plan(model.layouts, {.world = 2, .expert_parallel = 2});
  const StagePlan stages = make_stage_plan(model.layouts, TiedHead::kNo);
  const auto gradients = [&](GradientMode mode, ExpertGradients experts = ExpertGradients::kTogether) {
    return plan_gradients(plan, stages, 0, mode, experts);
  };
  EXPECT_EQ(gradients(GradientMode::kFloat32, ExpertGradients::kInTurn).all(), plan.arena_elements(0) * 4);
  EXPECT_EQ(gradients(GradientMode::kBFloat16).shards, plan.arena_elements(0) * 2);
  EXPECT_EQ(gradients(GradientMode::kRelease).shards, 0);
  const std::int64_t layer = gradients(GradientMode::kRelease).experts;
  EXPECT_GT(layer, gradients(GradientMode::kRelease, ExpertGradients::kInTurn).experts);
  EXPECT_EQ(layer % gradients(GradientMode::kRelease, ExpertGradients::kInTurn).experts, 0);
}

TEST(GradientMemory, experts_are_finished_in_turn_in_one_micro_batch_of_a_rank_that_owns_them) {
  EXPECT_EQ(expert_gradients({.world = 3, .expert_parallel = 3}, 6, 2), ExpertGradients::kInTurn);
  EXPECT_EQ(expert_gradients({.world = 3, .expert_parallel = 3}, 7, 2), ExpertGradients::kTogether);
  EXPECT_EQ(expert_gradients({.world = 4, .expert_parallel = 2}, 4, 2), ExpertGradients::kTogether);
}

TEST(FittingModes, go_from_all_float32_to_the_smallest_and_keep_kind_and_clip_rule) {
  const std::vector<OptimizerMode> modes = fitting_modes({.clip = ClipRule::kUnit}, DType::kBFloat16);
  ASSERT_EQ(modes.size(), 6U);
  EXPECT_EQ(modes.front(), (OptimizerMode{.clip = ClipRule::kUnit}));
  EXPECT_EQ(modes.back().master, MasterFormat::kNone);
  const std::vector<OptimizerMode> factored =
      fitting_modes({.kind = OptimizerKind::kAdafactor}, DType::kBFloat16);
  EXPECT_TRUE(std::ranges::all_of(
      factored, [](const OptimizerMode& mode) { return mode.state == StateFormat::kFactored; }));
  for (const OptimizerMode& mode : fitting_modes({}, DType::kFloat32))
    EXPECT_EQ(mode.master, MasterFormat::kFloat32);
}

}  // namespace
}  // namespace sluice
