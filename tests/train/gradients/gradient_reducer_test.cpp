#include "train/gradients/gradient_reducer.hpp"

#include "base/error.hpp"

#include "model/small_model.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace sluice {
namespace {

/// A tied model, so that the embedding belongs to two stages; its experts reduced, or routed to. Its gradients are
/// small integers, which bfloat16 holds too.
struct Reduction {
  bool routes;
  DType sent;
};

class GradientReducerTest : public testing::TestWithParam<Reduction> {
 protected:
  /// Adds `value` times (rank + 1) to every gradient of a stage, between open() and reduce().
  void reduce(const Stage& stage, float value) {
    reducer_.open(stage);
    for (const int unit : stage.units) {
      for (const ops::Parameter& view : views_of(unit)) {
        ops::clear_unwritten_gradient(view);
        at::Tensor gradient = view.grad;
        gradient.add_(value * static_cast<float>(comm_.rank() + 1));
      }
    }
    reducer_.reduce(stage);
  }

  [[nodiscard]] std::vector<ops::Parameter> views_of(int unit) const {
    std::vector<ops::Parameter> views;
    for (const Placement& placement : model_.layouts.units[static_cast<std::size_t>(unit)].placements())
      views.push_back(views_[model_.description.manifest[placement.tensor].name]);
    return views;
  }

  /// Every element of a stage's tensors has the sum over its sharers of `value` times (rank + 1).
  void expect_sums(const Stage& stage, float value) {
    reducer_.finish();
    const auto* gradients = reinterpret_cast<const float*>(store_.shards().data());
    for (const int unit : stage.units) {
      const int ranks = plan_.sharers(unit) == 1 ? comm_.rank() + 1 : comm_.size() * (comm_.size() + 1) / 2;
      const float sum = value * static_cast<float>(ranks);
      for (const Placement& placement : model_.layouts.units[static_cast<std::size_t>(unit)].placements())
        plan_.owned_runs(placement.tensor, comm_.rank(), [&](const ShardPlan::OwnedRun& run) {
          for (std::int64_t i = 0; i < run.count; ++i)
            ASSERT_EQ(gradients[run.arena_begin + i], sum) << "unit " << unit;
        });
    }
  }

  Communicator& comm_ = test::test_world();
  test::SmallModel model_{nlohmann::json::object({{"tie_word_embeddings", true}})};
  ShardPlan plan_{model_.layouts,
                  {.world = comm_.size(),
                   .expert_parallel = GetParam().routes ? comm_.size() : 1,
                   .wire = {.gradients = GetParam().sent}}};
  StagePlan stages_ = make_stage_plan(model_.layouts, TiedHead::kYes);
  GradientStore store_{
      plan_, stages_, comm_.rank(), GradientMode::kFloat32, ExpertGradients::kTogether, MemoryKind::kPrivate};
  ParameterViews views_{model_.description.manifest, plan_, comm_.rank(), DType::kFloat32,
                        MemoryKind::kPrivate};
  RankMesh mesh_{comm_, plan_.dims()};
  GradientReducer reducer_{mesh_, stages_, views_, store_, [](const GradientPart&) {}};
};

TEST_P(GradientReducerTest, sums_over_ranks_in_each_step_anew) {
  for (const float value : {1.0F, 2.0F}) {
    reducer_.begin_step();
    for (const Stage& layer : stages_.layers) reduce(layer, value);
    for (const Stage& layer : stages_.layers) expect_sums(layer, value);
  }
}

TEST_P(GradientReducerTest, what_nothing_came_to_has_no_gradient) {
  for (const int step : {0, 1}) {
    reducer_.begin_step();
    for (const Stage& layer : stages_.layers) {
      if (step == 0) {
        reduce(layer, 1);
      } else {
        reducer_.open(layer);
        reducer_.reduce(layer);
      }
      expect_sums(layer, step == 0 ? 1 : 0);
    }
  }
}

TEST_P(GradientReducerTest, parts_of_a_tied_embedding_add_up) {
  for (int step = 0; step < 2; ++step) {
    reducer_.begin_step();
    reduce(stages_.head, 1);
    for (const Stage& layer : stages_.layers) reduce(layer, 3);
    reduce(stages_.embed, 10);
    expect_sums(stages_.embed, 11);
    expect_sums(Stage{{stages_.head.units.back()}}, 1);
    for (const Stage& layer : stages_.layers) expect_sums(layer, 3);
  }
}

TEST_P(GradientReducerTest, of_rows_only_those_with_gradients_travel) {
  if (comm_.size() == 1) return;  // all of the table is there
  // Rank r has ones for row 3 and the r rows behind 20; rank 0 has none at all.
  const int rank = comm_.rank(), unit = stages_.embed.units.front();
  std::vector<std::int64_t> needed;
  if (rank > 0) needed.push_back(3);
  for (int i = 0; i < rank; ++i) needed.push_back(20 + i);
  const auto expected = [&](std::int64_t row) {
    if (row == 3) return static_cast<float>(comm_.size() - 1);
    return row >= 20 ? static_cast<float>(std::max<std::int64_t>(0, comm_.size() - 1 - (row - 20))) : 0.0F;
  };
  for (int step = 0; step < 2; ++step) {
    reducer_.begin_step();
    reduce(stages_.head, 1);
    reducer_.finish();
    const std::int64_t before = comm_.traffic().sent_bytes;
    const RowExchange rows(mesh_, plan_, unit, needed);
    reducer_.open_rows(stages_.embed, rows).add_(1);
    reducer_.reduce(stages_.embed);
    reducer_.finish();
    EXPECT_LT(comm_.traffic().sent_bytes - before, (rank + 2) * 500);
    const Placement& table = model_.layouts.units[static_cast<std::size_t>(unit)].placements().front();
    const int ranks = comm_.size() * (comm_.size() + 1) / 2;
    const auto sum = static_cast<float>(ranks);
    const auto* gradients = reinterpret_cast<const float*>(store_.shards().data());
    plan_.owned_runs(table.tensor, rank, [&](const ShardPlan::OwnedRun& run) {
      for (std::int64_t i = 0; i < run.count; ++i)
        ASSERT_EQ(gradients[run.arena_begin + i],
                  sum + expected((run.tensor_begin + i) / table.row_elements));
    });
  }
}

TEST_P(GradientReducerTest, rows_that_need_more_room_than_the_table_are_refused) {
  if (comm_.size() == 1) return;
  std::vector<std::int64_t> needed(29);
  std::iota(needed.begin(), needed.end(), 0);
  reducer_.begin_step();
  const RowExchange rows(mesh_, plan_, stages_.embed.units.front(), needed);
  EXPECT_THROW(static_cast<void>(reducer_.open_rows(stages_.embed, rows)), Error);
}

TEST_P(GradientReducerTest, views_are_unbound_outside_a_stages_time) {
  const at::Tensor& gradient = views_["model.layers.0.mlp.gate.weight"].grad;
  reducer_.begin_step();
  reducer_.open(stages_.layers[0]);
  EXPECT_NE(gradient.storage().data(), nullptr);
  reducer_.reduce(stages_.layers[0]);
  EXPECT_EQ(gradient.storage().data(), nullptr);
  reducer_.finish();
}

INSTANTIATE_TEST_SUITE_P(Experts, GradientReducerTest,
                         testing::Values(Reduction{false, DType::kFloat32}, Reduction{true, DType::kFloat32},
                                         Reduction{false, DType::kBFloat16},
                                         Reduction{true, DType::kBFloat16}),
                         [](const auto& given) {
                           return std::string(given.param.routes ? "routed_to" : "reduced") + "_in_" +
                                  std::string(name_of(given.param.sent));
                         });

}  // namespace
}  // namespace sluice
