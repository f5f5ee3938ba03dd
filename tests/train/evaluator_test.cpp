#include "train/evaluator.hpp"

#include "comm/root_exchange.hpp"
#include "data/share_of.hpp"
#include "model/small_model.hpp"
#include "support/expect_error.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

namespace sluice {
namespace {

constexpr std::int64_t kLength = 9;

/// A padded sequence behind four others of two documents each.
Batch some_tokens() {
  Batch batch{5, kLength};
  for (std::int64_t i = 0; i < batch.sequences * (kLength + 1); ++i) {
    batch.ids.push_back((i * i + 5 * i) % 29);
    batch.marks.push_back(i % (kLength + 1) == 4 ? TokenMark::kBegins : TokenMark::kInside);
  }
  std::fill(batch.marks.end() - 3, batch.marks.end(), TokenMark::kPadding);
  batch.global_targets = count_targets(batch);
  return batch;
}

/// An evaluator on the ranks of a communicator, with its weights.
struct Evaluation {
  Evaluation(Communicator& ranks, const test::SmallModel& model, int expert_parallel = 1)
      : comm(ranks),
        plan(model.layouts, {.world = comm.size(), .expert_parallel = expert_parallel}),
        weights(plan, comm.rank(), DType::kFloat32, MemoryKind::kPrivate, "weights"),
        binder(comm, model.description.config, model.description.manifest, weights),
        evaluator(comm, model.description.config, binder, kLength, 2) {
    initialize_shards(weights, model.description.manifest, 0.2F, 7);
  }
  /// Of every target of the batch, on rank 0.
  [[nodiscard]] std::vector<double> losses(const Batch& whole) {
    const std::vector<double> own = evaluator.losses(test::share_of(whole, comm));
    return gather_to_root(comm, std::span(own));
  }

  Communicator& comm;
  const ShardPlan plan;
  ShardArena weights;
  StageBinder binder;
  Evaluator evaluator;
};

TEST(Evaluator, ranks_find_together_the_losses_that_one_finds_alone) {
  for (const nlohmann::json& changes : {nlohmann::json::object(), test::hybrid_changes()}) {
    const test::SmallModel model(changes);
    const std::unique_ptr<Communicator> alone = test::test_world().split(test::test_world().rank(), 0);
    const Batch batch = some_tokens();
    const std::vector<double> expected = Evaluation(*alone, model).losses(batch);
    for (const int expert_parallel : {1, test::test_world().size()}) {
      const std::vector<double> found = Evaluation(test::test_world(), model, expert_parallel).losses(batch);
      if (test::test_world().rank() != 0) continue;
      ASSERT_EQ(found.size(), 5U * kLength);
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
      EXPECT_EQ(found[3], 0) << "the next document's first token is nobody's target";
      EXPECT_EQ(found.back(), 0) << "padding";
      EXPECT_GT(*std::ranges::max_element(found), 1.0);
    }
  }
}

TEST(Evaluator, a_document_costs_the_same_wherever_it_stands) {
  const test::SmallModel model(test::hybrid_changes());
  Evaluation evaluation(test::test_world(), model);
  Batch packed = some_tokens();
  Batch shifted{1, kLength, {}, std::vector<TokenMark>(kLength + 1, TokenMark::kPadding)};
  for (std::size_t t = 0; t < 6; ++t) {
    shifted.ids.push_back(packed.ids[4 + t]);
    shifted.marks[t] = TokenMark::kInside;
  }
  shifted.ids.resize(kLength + 1);
  shifted.global_targets = count_targets(shifted);
  const std::vector<double> inside = evaluation.losses(packed);
  const std::vector<double> alone = evaluation.losses(shifted);
  if (test::test_world().rank() != 0) return;
  for (std::size_t t = 0; t < 5; ++t) EXPECT_NEAR(inside[4 + t], alone[t], 1e-5);
}

TEST(Evaluator, broken_weights_end_it_on_all_ranks) {
  const test::SmallModel model;
  Evaluation evaluation(test::test_world(), model);
  const int last_unit = static_cast<int>(model.layouts.units.size()) - 1;
  if (test::test_world().rank() == 0)
    *reinterpret_cast<float*>(evaluation.weights.unit_data(last_unit)) =
        std::numeric_limits<float>::quiet_NaN();
  test::expect_error(ExitCode::kNumerics, {"not finite"},
                     [&] { static_cast<void>(evaluation.losses(some_tokens())); });
}

TEST(Evaluator, finds_the_preferences_that_a_step_finds) {
  const test::SmallModel model(nlohmann::json::object(), DType::kFloat32,
                               {"model.layers.1.mlp.experts.down_proj"});
  Batch batch = some_tokens();
  for (std::int64_t sequence = 0; sequence < 4; ++sequence)
    batch.pairs.push_back({.sequence = sequence, .chosen = {0, 3}, .rejected = {4, kLength}});
  const PreferSettings settings{.sft_weight = 0.5, .reference = {PreferenceReference::kBase}};
  Evaluation evaluation(test::test_world(), model, test::test_world().size());
  PreferenceSums sums = evaluation.evaluator.preferences(test::share_of(batch, test::test_world()), settings);
  test::test_world().all_reduce_sum(std::span<double>(sums));
  const std::vector<double> losses = evaluation.losses(batch);
  EXPECT_EQ(sums[kPairs], 4);
  EXPECT_NEAR(sums[kPairLosses], 4 * std::log(2), 1e-12) << "a new adapter is its own reference";
  if (test::test_world().rank() != 0) return;
  double of_chosen = 0;
  for (const PreferencePair& pair : batch.pairs)
    for (std::int64_t target = pair.chosen.begin; target < pair.chosen.end; ++target)
      of_chosen += losses[static_cast<std::size_t>(pair.sequence * kLength + target)];
  EXPECT_NEAR(sums[kAnswerLosses], of_chosen, 1e-9);
  EXPECT_NEAR(sums[kChosenLogProbs], -of_chosen, 1e-9);
}

}  // namespace
}  // namespace sluice
