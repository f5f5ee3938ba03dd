#include "job/plan/job_plan.hpp"

#include "comm/solo_communicator.hpp"
#include "config/job_config.hpp"
#include "job/plan/advice.hpp"
#include "job/plan/plan_checks.hpp"
#include "support/expect_error.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <set>

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

/// A training whose head takes far more memory gathered than by rows.
class LargeVocabulary : public ::testing::Test {
 protected:
  LargeVocabulary() {
    std::ifstream tiny(fixture_folder() / "qwen3-moe-tiny/config.json");
    nlohmann::json model = nlohmann::json::parse(tiny);
    model["vocab_size"] = 100000;
    std::ofstream(directory_.path() / "config.json") << model;
    config_.model.path = directory_.path();
    config_.model.init = ModelInit::kRandom;
    config_.optimizer.fit = OptimizerFit::kAuto;
  }

  /// Plan for three ranks; `sequences` decides which choice sends fewer bytes.
  [[nodiscard]] JobPlan plan(VocabularySharing vocabulary, std::int64_t sequences, std::int64_t bytes) const {
    JobConfig config = config_;
    config.parallel.vocabulary = vocabulary;
    config.data.sequence_length = 1024;
    config.train.batch_sequences = sequences;
    return plan_of(config, {.ranks = 3, .memory_bytes = bytes});
  }

  static constexpr std::int64_t kFew = 3, kMany = 600;
  JobConfig config_ = training();

 private:
  test::TemporaryDirectory directory_{};
};

bool is_sharded(const JobPlan& plan) {
  return plan.config().parallel.vocabulary == VocabularySharing::kSharded;
}

TEST_F(LargeVocabulary, is_shared_so_that_the_job_fits_in_the_most_exact_mode) {
  using enum VocabularySharing;
  const std::int64_t most = plan(kGathered, kMany, std::int64_t{1} << 40).largest_peak();
  std::set<bool> chosen;
  for (std::int64_t bytes = most + most / 6; bytes > most / 4; bytes -= most / 24) {
    const JobPlan found = plan(kAuto, kMany, bytes), gathered = plan(kGathered, kMany, bytes),
                  sharded = plan(kSharded, kMany, bytes);
    EXPECT_EQ(found.lack.empty(), gathered.lack.empty() || sharded.lack.empty()) << bytes;
    if (!found.lack.empty()) continue;
    EXPECT_LE(found.largest_peak(), usable_bytes(bytes));
    EXPECT_EQ(found.config().optimizer.mode(), sharded.config().optimizer.mode()) << bytes;
    EXPECT_EQ(found.chosen_vocabulary.has_value(), is_sharded(found));
    EXPECT_EQ(is_sharded(found), gathered.config().optimizer.mode() != sharded.config().optimizer.mode() ||
                                     !gathered.lack.empty())
        << bytes;
    chosen.insert(is_sharded(found));
  }
  EXPECT_EQ(chosen.size(), 2U);
}

TEST_F(LargeVocabulary, is_shared_so_that_a_job_as_written_fits) {
  using enum VocabularySharing;
  config_.optimizer.fit = OptimizerFit::kAsWritten;
  const std::int64_t ample = std::int64_t{1} << 40, gathered = plan(kGathered, kMany, ample).largest_peak(),
                     sharded = plan(kSharded, kMany, ample).largest_peak();
  ASSERT_LT(sharded, gathered);
  EXPECT_FALSE(is_sharded(plan(kAuto, kMany, ample)));
  EXPECT_TRUE(is_sharded(plan(kAuto, kFew, ample)));
  const JobPlan between = plan(kAuto, kMany, (sharded + gathered) / 2 / 9 * 10);
  EXPECT_TRUE(is_sharded(between));
  EXPECT_NE(vocabulary_text(between).find("memory is short"), std::string::npos);
  EXPECT_TRUE(is_sharded(plan(kAuto, kMany, 1 << 20))) << "where nothing fits, what lacks least";
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
