#include "plan/step_traffic.hpp"

#include "model/small_model.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace sluice {
namespace {

constexpr std::int64_t kTokens = 8, kSequences = 16;

Workload training(int backward_passes = 1) {
  return {.dtype = DType::kBFloat16,
          .pass_length = kTokens,
          .batch_sequences = kSequences,
          .backward_passes = backward_passes};
}

std::vector<StepTraffic> traffic(const test::SmallModel& model, ParallelDims dims, const Workload& work,
                                 const ExpertShares& shares = {}) {
  const ShardPlan shards(model.layouts, dims);
  const TiedHead tied{model.description.config.tie_word_embeddings};
  return plan_step_traffic(model.description.config, model.description.manifest, shards,
                           make_stage_plan(model.layouts, tied), work, {}, shares);
}

std::int64_t sum_of(const std::vector<StepTraffic>& ranks, std::int64_t StepTraffic::*purpose) {
  return std::accumulate(ranks.begin(), ranks.end(), std::int64_t{0},
                         [&](std::int64_t sum, const StepTraffic& rank) { return sum + rank.*purpose; });
}

TEST(StepTraffic, is_nothing_for_one_rank_and_for_jobs_that_run_no_batches) {
  const test::SmallModel model;
  EXPECT_EQ(traffic(model, {.world = 1}, training()).front().all(), 0);
  Workload load = training();
  load.computes = load.trains = false;
  EXPECT_EQ(traffic(model, {.world = 3}, load).back().all(), 0);
}

TEST(StepTraffic, gathers_layers_twice_and_reduces_them_once_or_with_a_second_pass_once_more) {
  const test::SmallModel model;  // units: embedding, then dense part and experts of two layers, then final
  const auto elements = [&](std::size_t unit) { return model.layouts.units[unit].elements(); };
  const std::int64_t dense = elements(1) + elements(3), experts = elements(2) + elements(4);
  for (const int passes : {1, 2}) {
    const std::vector<StepTraffic> ranks = traffic(model, {.world = 3}, training(passes));
    EXPECT_EQ(sum_of(ranks, &StepTraffic::dense_weights), (1 + passes) * dense * 2 * 2);
    EXPECT_EQ(sum_of(ranks, &StepTraffic::dense_gradients), passes * dense * 4 * 2);
    EXPECT_EQ(sum_of(ranks, &StepTraffic::expert_weights), (1 + passes) * experts * 2 * 2);
    EXPECT_EQ(sum_of(ranks, &StepTraffic::expert_gradients), passes * experts * 4 * 2);
    EXPECT_EQ(sum_of(ranks, &StepTraffic::tokens), 0);
  }
}

TEST(StepTraffic, between_copies_of_the_model_is_of_trained_gradients_alone) {
  test::SmallModel model;
  std::int64_t all = 0, vocabulary = 0;
  for (std::size_t unit = 0; unit < model.layouts.units.size(); ++unit) {
    const bool is_of_layer = unit > 0 && unit + 1 < model.layouts.units.size();
    all += model.layouts.units[unit].elements();
    if (!is_of_layer) vocabulary += model.layouts.units[unit].elements();
  }
  for (const int passes : {1, 2}) {
    const std::vector<StepTraffic> ranks = traffic(model, {.world = 1, .replicas = 3}, training(passes));
    ASSERT_EQ(ranks.size(), 3U);
    EXPECT_EQ(sum_of(ranks, &StepTraffic::dense_gradients) + sum_of(ranks, &StepTraffic::expert_gradients) +
                  sum_of(ranks, &StepTraffic::vocabulary),
              passes * 4 * (2 * all + 2 * all))
        << "to the rank that adds them up, and their sums back";
    EXPECT_EQ(sum_of(ranks, &StepTraffic::vocabulary), passes * 4 * 4 * vocabulary);
    EXPECT_EQ(sum_of(ranks, &StepTraffic::dense_weights) + sum_of(ranks, &StepTraffic::expert_weights) +
                  sum_of(ranks, &StepTraffic::tokens),
              0);
  }
}

TEST(StepTraffic, counts_tokens_in_place_of_experts_where_they_travel) {
  const test::SmallModel model;
  const ModelConfig& config = model.description.config;
  const std::vector<StepTraffic> ranks = traffic(model, {.world = 2, .expert_parallel = 2}, training());
  EXPECT_EQ(sum_of(ranks, &StepTraffic::expert_weights) + sum_of(ranks, &StepTraffic::expert_gradients), 0);
  // Of each token: x and the result, then x, the result's gradient and that of x, choices and weights twice,
  // and the gradients of weights.
  const std::int64_t of_token = 5 * config.hidden_size * 2 + 5 * config.experts_per_token * 4;
  EXPECT_EQ(sum_of(ranks, &StepTraffic::tokens), config.moe_layer_count() * kSequences * kTokens * of_token);
}

TEST(StepTraffic, of_gradients_in_bfloat16_is_half) {
  const test::SmallModel model;
  for (const ParallelDims& dims : {ParallelDims{.world = 3}, ParallelDims{.world = 2, .expert_parallel = 2},
                                   ParallelDims{.world = 1, .replicas = 3}}) {
    ParallelDims rounded = dims;
    rounded.wire.gradients = DType::kBFloat16;
    const std::vector<StepTraffic> exact = traffic(model, dims, training(2)),
                                   halves = traffic(model, rounded, training(2));
    for (const auto purpose : {&StepTraffic::dense_gradients, &StepTraffic::expert_gradients})
      EXPECT_EQ(2 * sum_of(halves, purpose), sum_of(exact, purpose));
    EXPECT_LT(sum_of(halves, &StepTraffic::vocabulary), sum_of(exact, &StepTraffic::vocabulary));
    EXPECT_EQ(sum_of(halves, &StepTraffic::dense_weights), sum_of(exact, &StepTraffic::dense_weights));
  }
}

TEST(StepTraffic, of_tokens_in_int8_is_codes_and_scales_out_and_the_models_type_back) {
  const test::SmallModel model;
  const ModelConfig& config = model.description.config;
  const ParallelDims dims{.world = 2, .expert_parallel = 2, .wire = {.tokens = TokenFormat::kInt8}};
  const std::int64_t coded = config.hidden_size + 4 * ((config.hidden_size + 127) / 128);
  const std::int64_t of_token = 3 * coded + 2 * config.hidden_size * 2 + 5 * config.experts_per_token * 4;
  EXPECT_EQ(sum_of(traffic(model, dims, training()), &StepTraffic::tokens),
            config.moe_layer_count() * kSequences * kTokens * of_token);
}

TEST(StepTraffic, sends_a_token_of_a_large_group_to_the_ranks_of_its_experts) {
  const test::SmallModel model({{"num_experts", 8}, {"num_experts_per_tok", 1}});
  const ParallelDims dims{.world = 8, .expert_parallel = 8};
  const std::vector<StepTraffic> even = traffic(model, dims, training());
  const std::int64_t of_token = 5 * model.description.config.hidden_size * 2 + 5 * 4;
  const auto tokens = static_cast<double>(model.description.config.moe_layer_count() * kSequences * kTokens);
  EXPECT_NEAR(static_cast<double>(sum_of(even, &StepTraffic::tokens)),
              tokens * 7 / 8 * static_cast<double>(of_token), 8);
  // All tokens choose the first rank's expert: the tokens of that rank stay.
  const ExpertShares first(2, {1, 0, 0, 0, 0, 0, 0, 0});
  const std::vector<StepTraffic> uneven = traffic(model, dims, training(), first);
  EXPECT_GT(uneven[0].tokens, uneven[1].tokens / 2);
  EXPECT_NEAR(static_cast<double>(sum_of(uneven, &StepTraffic::tokens)),
              static_cast<double>(sum_of(even, &StepTraffic::tokens)), 8);
}

TEST(StepTraffic, sends_rows_of_a_large_embedding_and_all_of_a_small_one) {
  const test::SmallModel small(nlohmann::json{{"vocab_size", 16}}),
      large(nlohmann::json{{"vocab_size", 4096}});
  const auto vocabulary = [&](const test::SmallModel& model) {
    return sum_of(traffic(model, {.world = 2}, training()), &StepTraffic::vocabulary);
  };
  const std::int64_t width = small.description.config.hidden_size;
  const auto whole = [&](const test::SmallModel& model) {
    return model.layouts.units.back().elements() * (2 + 4) + model.layouts.units.front().elements() * (2 + 4);
  };
  EXPECT_EQ(vocabulary(small), whole(small));
  EXPECT_LT(vocabulary(large), large.layouts.units.back().elements() * (2 + 4) +
                                   kSequences * kTokens * (width * (2 + 4) + 8) + 32);
}

TEST(StepTraffic, stops_below_the_lowest_trained_layer) {
  const test::SmallModel model(nlohmann::json::object(), DType::kBFloat16,
                               {"model.layers.1.mlp.gate.weight"});
  const std::vector<StepTraffic> ranks = traffic(model, {.world = 2}, training());
  std::int64_t first = 0, second = 0;
  for (const FlatLayout& unit : model.layouts.units)
    if (unit.kind() == UnitKind::kDense) (unit.layer() == 0 ? first : second) += unit.elements();
  EXPECT_EQ(sum_of(ranks, &StepTraffic::dense_weights), (first + 2 * second) * 2);
  EXPECT_EQ(sum_of(ranks, &StepTraffic::expert_gradients), 0);
}

}  // namespace
}  // namespace sluice
