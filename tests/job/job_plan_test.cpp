#include "job/plan/job_plan.hpp"

#include "comm/solo_communicator.hpp"
#include "config/job_config.hpp"
#include "job/plan/advice.hpp"
#include "job/plan/plan_checks.hpp"
#include "support/expect_error.hpp"
#include "support/source_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice {
namespace {

JobConfig training() {
  JobConfig config;
  config.job.output = "run";
  config.model.path = fixture_folder() / "qwen3-moe-tiny";
  config.data.tokens = "tokens.h5";
  config.data.sequence_length = 16;
  config.train.batch_sequences = 4;
  return config;
}

JobPlan plan_of(const JobConfig& config, const MachineArguments& machine) {
  SoloCommunicator self;
  return JobPlan::make(self, std::make_shared<const Blueprint>(config), assumed_machine(config, machine));
}

TEST(JobPlan, of_five_ranks_is_made_in_a_world_of_one) {
  const JobPlan plan = plan_of(training(), {.ranks = 5});
  EXPECT_EQ(plan.shards.world(), 5);
  ASSERT_EQ(plan.ranks.size(), 5U);
  ASSERT_EQ(plan.staging.bytes.size(), 5U);
  EXPECT_EQ(plan.staging.not_exact, "");
  EXPECT_GT(plan.staging.bytes[0], plan.staging.bytes[4]);  // rank 0 reads, and rank 4 only receives
}

TEST(JobPlan, counts_copies_of_checkpoints_where_nodes_may_save_apart) {
  const MachineArguments together{.ranks = 3, .nodes = 1}, apart{.ranks = 3};
  const JobPlan here = plan_of(training(), together), there = plan_of(training(), apart);
  EXPECT_EQ(here.saves.step_bytes_of_host, 0);
  EXPECT_GT(there.saves.step_bytes_of_host, 0);
  EXPECT_GT(there.ranks[0].save_buffers, here.ranks[0].save_buffers);
  JobConfig shared = training();
  shared.checkpoint.storage = SaveStorage::kShared;
  EXPECT_EQ(plan_of(shared, apart).ranks[0].save_buffers, here.ranks[0].save_buffers);
}

TEST(JobPlan, chooses_a_mode_with_all_that_it_counts_afterwards) {
  JobConfig config = training();
  config.optimizer.fit = OptimizerFit::kAuto;
  const std::int64_t most = plan_of(config, {.ranks = 3, .memory_bytes = 1 << 30}).largest_peak();
  for (std::int64_t bytes = most; bytes > most / 2; bytes -= most / 40) {
    const JobPlan plan = plan_of(config, {.ranks = 3, .memory_bytes = bytes});
    EXPECT_TRUE(plan.is_fitted);
    EXPECT_EQ(plan.lack.empty(), plan.largest_peak() <= usable_bytes(bytes)) << bytes;
  }
}

TEST(JobPlan, that_does_not_fit_ends_with_what_is_lacking) {
  JobConfig config = training();
  config.optimizer.fit = OptimizerFit::kAuto;
  const JobPlan plan = plan_of(config, {.ranks = 3, .memory_bytes = 1 << 20});
  SoloCommunicator self;
  test::expect_error(ExitCode::kTooLittle, {"optimizer.fit", "sluice plan"},
                     [&] { require_sound(self, plan); });
}

TEST(JobPlan, is_tried_with_changes_by_those_who_look_for_what_fits) {
  const JobPlan plan = plan_of(training(), {.ranks = 1});
  const JobPlan more = plan.with(plan.machine.with_ranks(4));
  EXPECT_EQ(more.ranks.size(), 4U);
  EXPECT_LT(more.ranks[0].weights, plan.ranks[0].weights);
  const std::int64_t limit = plan.largest_peak() - 1;
  for (const FitAdvice& advice : advise(plan, limit)) EXPECT_LE(advice.peak_bytes, limit) << advice.change;
  EXPECT_FALSE(advise(plan, limit).empty());
}

TEST(AssumedMachine, shares_ranks_out_among_the_nodes_that_it_is_told_of) {
  const Machine machine =
      assumed_machine(training(), {.ranks = 5, .nodes = 2, .threads = 7, .memory_bytes = 99});
  EXPECT_EQ(machine.nodes, (std::vector{0, 0, 0, 1, 1}));
  EXPECT_EQ(machine.threads, 7);
  EXPECT_EQ(machine.growth_limits, std::vector<std::int64_t>(5, 99));
  test::expect_error(ExitCode::kUsage, {"--nodes", "6", "5"},
                     [] { static_cast<void>(assumed_machine(training(), {.ranks = 5, .nodes = 6})); });
}

}  // namespace
}  // namespace sluice
