#include "job/run_directory.hpp"

#include "process/console.hpp"
#include "support/expect_error.hpp"
#include "support/mpi_test.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <fstream>
#include <iterator>

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Each rank has a temporary directory of its own; rank 0's is what counts.
class RunDirectoryTest : public testing::Test {
 protected:
  RunDirectoryTest() {
    config_.job.output = temporary_ / "runs/first";
    config_.model.path = "models/x";
    config_.data.tokens = "tokens.h5";
  }
  [[nodiscard]] nlohmann::json status() const {
    return nlohmann::json::parse(text_of(config_.job.output / "status.json"));
  }
  void expect_refused(const std::vector<std::string>& parts) {
    test::expect_error(ExitCode::kBadConfig, parts, [&] { const RunDirectory again(config_, comm_); });
  }

  Communicator& comm_ = test::test_world();
  bool is_root_ = comm_.rank() == 0;
  test::TemporaryDirectory temporary_;
  JobConfig config_;
};

TEST_F(RunDirectoryTest, is_made_by_rank_0_with_job_file_and_status_and_has_a_log_of_each_rank) {
  RunDirectory directory(config_, comm_);
  directory.begin_log();
  EXPECT_EQ(directory.file("metrics.h5"), config_.job.output / "metrics.h5");
  EXPECT_EQ(directory.file("/tmp/x.h5"), "/tmp/x.h5");
  EXPECT_TRUE(fs::exists(config_.job.output / fmt::format("logs/rank-{:05}.log", comm_.rank())));
  EXPECT_EQ(fs::exists(config_.job.output / "status.json"), is_root_);
  if (!is_root_) return;
  EXPECT_EQ(parse_job_config(text_of(config_.job.output / "job.toml"), "job.toml").job.output,
            config_.job.output);
  EXPECT_EQ(status()["state"], "starting");
  EXPECT_EQ(status()["world_size"], comm_.size());
}

TEST_F(RunDirectoryTest, counts_the_starts_of_its_run) {
  for (const int attempt : {1, 2}) {
    const RunDirectory directory(config_, comm_);
    EXPECT_EQ(directory.attempt(), is_root_ ? attempt : 0);
    EXPECT_TRUE(!is_root_ || status()["attempt"] == attempt);
  }
}

TEST_F(RunDirectoryTest, logs_of_an_earlier_run_with_more_ranks_go_if_it_is_overwritten) {
  const fs::path logs = config_.job.output / "logs";
  fs::create_directories(logs);
  const std::string own = fmt::format("rank-{:05}.log", comm_.rank());
  const std::vector<std::string> others{"rank-00007.log", "rank-123456.log"};
  const std::vector<std::string> not_ours{"rank-7.log", "rank-00007.txt", "rank--0001.log", "notes.log"};
  const auto write_all = [&] {
    for (const auto& names : {std::vector{own}, others, not_ours})
      for (const std::string& name : names) std::ofstream(logs / name) << "earlier\n";
  };
  for (const bool overwrite : {false, true}) {
    config_.job.overwrite = overwrite;
    write_all();
    RunDirectory(config_, comm_).begin_log();
    EXPECT_EQ(text_of(logs / own).starts_with("earlier\n"), !overwrite);
    EXPECT_THAT(text_of(logs / own), testing::HasSubstr(fmt::format("rank {} of", comm_.rank())));
    for (const std::string& name : others)
      EXPECT_EQ(fs::exists(logs / name), !overwrite || !is_root_) << name;
    for (const std::string& name : not_ours) EXPECT_EQ(text_of(logs / name), "earlier\n") << name;
  }
}

TEST_F(RunDirectoryTest, status_tells_how_far_the_job_is) {
  RunDirectory directory(config_, comm_);
  directory.set_status("training");
  directory.set_progress({.done = 12, .total = 20});
  directory.set_status("exporting");
  if (!is_root_) return;
  EXPECT_EQ(status()["state"], "exporting");
  EXPECT_EQ(status()["step"], 12);
  EXPECT_FALSE(status().contains("exit_code"));
  directory.set_done();
  EXPECT_EQ(status()["state"], "done");
  EXPECT_EQ(status()["step"], 12);
  EXPECT_EQ(status()["exit_code"], 0);
  EXPECT_FALSE(status().contains("id"));
  EXPECT_FALSE(status().contains("message"));
}

TEST_F(RunDirectoryTest, status_tells_what_other_jobs_than_trainings_count) {
  config_.job.kind = JobKind::kEvaluate;
  RunDirectory directory(config_, comm_);
  directory.set_progress({.unit = "sequence", .done = 3, .total = 7, .loss = 2.5});
  if (!is_root_) return;
  EXPECT_EQ(status()["kind"], "evaluate");
  EXPECT_EQ(status()["sequence"], 3);
  EXPECT_EQ(status()["sequences"], 7);
  EXPECT_EQ(status()["loss"], 2.5);
  EXPECT_FALSE(status().contains("tokens_per_second"));
  EXPECT_FALSE(status().contains("step"));
}

TEST_F(RunDirectoryTest, status_of_a_job_that_an_earlier_run_has_done_tells_what_that_told) {
  if (!is_root_) return;
  {
    RunDirectory first(config_, comm_);
    EXPECT_FALSE(first.was_done_before());
    first.set_progress({.done = 4, .total = 4, .loss = 2.5, .tokens_per_second = 7});
    first.set_done();
  }
  RunDirectory again(config_, comm_);
  EXPECT_TRUE(again.was_done_before());
  again.set_done_before({.done = 4, .total = 4});
  EXPECT_EQ(status()["step"], 4);
  EXPECT_EQ(status()["loss"], 2.5);
  EXPECT_EQ(status()["tokens_per_second"], 7);
}

TEST_F(RunDirectoryTest, results_of_the_very_job_that_is_done_are_told_from_those_of_another) {
  if (!is_root_) return;
  config_.job.kind = JobKind::kEvaluate;
  {
    RunDirectory first(config_, comm_);
    std::ofstream(first.new_file(config_.metrics.file)) << "results";
    first.set_done();
  }
  expect_refused({"metrics.h5", "done already", "job.overwrite"});
  config_.data.tokens = "other.h5";
  expect_refused({"metrics.h5", "earlier run"});
}

TEST_F(RunDirectoryTest, what_the_terminal_is_told_is_in_the_log_too) {
  RunDirectory directory(config_, comm_);
  directory.begin_log();
  console::line("step {}/2", 1);
  console::report("it ends");
  const std::string text = text_of(config_.job.output / fmt::format("logs/rank-{:05}.log", comm_.rank()));
  EXPECT_THAT(text, testing::ContainsRegex("I step 1/2\n"));
  EXPECT_THAT(text, testing::ContainsRegex("E it ends\n"));
}

TEST_F(RunDirectoryTest, status_of_a_failure_has_code_id_and_text_even_if_that_is_no_utf8) {
  RunDirectory directory(config_, comm_);
  directory.set_failed({{ExitCode::kNumerics, "train.not_finite"}, "loss nan \xff"});
  if (!is_root_) return;
  EXPECT_EQ(status()["state"], "failed");
  EXPECT_EQ(status()["exit_code"], 76);
  EXPECT_EQ(status()["id"], "train.not_finite");
  EXPECT_THAT(status()["message"].get<std::string>(), testing::StartsWith("loss nan "));
}

TEST_F(RunDirectoryTest, what_cannot_be_written_does_not_end_the_job) {
  RunDirectory directory(config_, comm_);
  fs::remove_all(config_.job.output);
  directory.set_status("training");
  directory.set_failed({ExitCode::kInternal, "whatever"});
}

TEST_F(RunDirectoryTest, belongs_to_one_job_at_a_time) {
  if (!is_root_) return;
  {
    RunDirectory directory(config_, comm_);
    directory.set_status("training");
    expect_refused({"job.output", "another job is running", config_.job.output.string()});
    EXPECT_EQ(status()["state"], "training") << "the running job's files stay as they are";
  }
  const RunDirectory next(config_, comm_);
}

TEST_F(RunDirectoryTest, results_of_an_earlier_run_are_replaced_only_if_asked_for) {
  if (!is_root_) return;
  config_.debug.dump = "dump.h5";
  for (const char* name : {"metrics.h5", "dump.h5"}) {
    config_.job.output = temporary_ / fmt::format("run-of-{}", name);
    const fs::path file = config_.job.output / name;
    fs::create_directories(config_.job.output);
    std::ofstream(file) << "results";
    config_.job.overwrite = true;
    {
      const RunDirectory directory(config_, comm_);
      EXPECT_EQ(text_of(file), "results") << "as long as nothing takes its place";
      EXPECT_EQ(directory.new_file(name), file);
      EXPECT_FALSE(fs::exists(file));
    }

    std::ofstream(file) << "results";
    fs::remove(config_.job.output / "job.toml");
    config_.job.overwrite = false;
    expect_refused({file.string(), "earlier run", "job.overwrite = true"});
    EXPECT_EQ(text_of(file), "results");
    EXPECT_FALSE(fs::exists(config_.job.output / "job.toml"));
  }
}

TEST_F(RunDirectoryTest, replaces_no_job_file_but_its_own) {
  if (!is_root_) return;
  config_.job.overwrite = true;
  { const RunDirectory first(config_, comm_); }
  { const RunDirectory again(config_, comm_); }
  const fs::path file = config_.job.output / "job.toml";
  std::ofstream(file) << "# precious\n";
  expect_refused({file.string(), "is not a copy"});
  test::expect_error(ExitCode::kBadConfig, {file.string()}, [&] { RunDirectory::check(config_); });
  EXPECT_EQ(text_of(file), "# precious\n");
}

TEST_F(RunDirectoryTest, results_that_cannot_be_written_are_found_before_anything_is_loaded) {
  if (!is_root_) return;
  config_.metrics.file = std::string(250, 'n');  // longer with the ending that it has at first
  test::expect_error(ExitCode::kIo, {"metrics.file", "nnn"},
                     [&] { const RunDirectory directory(config_, comm_); });
  config_.metrics.file = temporary_.write("file", "") / "metrics.h5";
  test::expect_error(ExitCode::kIo, {"metrics.file", "not a directory"},
                     [&] { RunDirectory::check(config_); });
}

TEST_F(RunDirectoryTest, a_look_leaves_no_trace) {
  RunDirectory::check(config_);
  EXPECT_FALSE(fs::exists(config_.job.output.parent_path()));
}

TEST_F(RunDirectoryTest, a_signal_is_how_the_job_ended_unless_a_rank_had_failed_before) {
  RunDirectory directory(config_, comm_);
  directory.set_status("training");
  directory.set_ended_by(SIGTERM, static_cast<ExitCode>(128 + SIGTERM));
  if (!is_root_) return;
  EXPECT_EQ(status()["state"], "failed");
  EXPECT_EQ(status()["exit_code"], 128 + SIGTERM);
  EXPECT_EQ(status()["id"], "job.signal");
  EXPECT_THAT(status()["message"].get<std::string>(), testing::StartsWith("ended by SIGTERM"));
  directory.set_failed({ExitCode::kNumerics, "loss nan"});
  directory.set_ended_by(SIGTERM, static_cast<ExitCode>(128 + SIGTERM));
  EXPECT_EQ(status()["message"], "loss nan");
}

TEST_F(RunDirectoryTest, the_first_failure_is_the_cause) {
  RunDirectory directory(config_, comm_);
  directory.set_failed({ExitCode::kNumerics, "loss nan"});
  directory.set_failed({ExitCode::kInternal, "step: rank 2 is missing"});
  directory.set_ended_by(SIGTERM, static_cast<ExitCode>(128 + SIGTERM));
  if (!is_root_) return;
  EXPECT_EQ(status()["message"], "loss nan");
}

TEST_F(RunDirectoryTest, the_failure_of_another_rank_keeps_what_rank_0_has_told) {
  RunDirectory directory(config_, comm_);
  directory.set_saved(40);
  if (!is_root_) {
    fs::create_directories(config_.job.output);
    std::ofstream(config_.job.output / "status.json")
        << R"({"state": "training", "step": 41, "saved_step": 40})";
  }
  directory.set_failed({ExitCode::kInternal, "step: rank 0 is missing"});
  EXPECT_EQ(status()["saved_step"], 40);
  EXPECT_EQ(status()["state"], "failed");
  EXPECT_EQ(status()["message"], "step: rank 0 is missing");
  EXPECT_TRUE(is_root_ || status()["step"] == 41);
}

TEST_F(RunDirectoryTest, a_signal_is_told_with_the_crash_that_it_follows_from) {
  RunDirectory directory(config_, comm_);
  directory.set_ended_by(SIGTERM, static_cast<ExitCode>(128 + SIGTERM), "rank 1 crashed with signal 11");
  if (!is_root_) return;
  EXPECT_EQ(status()["message"], "ended by SIGTERM: rank 1 crashed with signal 11");
}

TEST_F(RunDirectoryTest, a_signal_is_told_though_the_status_is_not_as_we_write_it) {
  RunDirectory directory(config_, comm_);
  if (!is_root_) return;
  std::ofstream(config_.job.output / "status.json") << R"({"state": 3})";
  directory.set_ended_by(SIGTERM, static_cast<ExitCode>(128 + SIGTERM));
  EXPECT_EQ(status()["state"], "failed");
}

TEST_F(RunDirectoryTest, folders_of_results_are_there_from_the_start) {
  if (!is_root_) return;
  config_.metrics.file = "numbers/metrics.h5";
  const RunDirectory directory(config_, comm_);
  EXPECT_TRUE(fs::is_directory(config_.job.output / "numbers"));
}

TEST_F(RunDirectoryTest, a_path_that_cannot_be_made_is_an_io_error) {
  if (!is_root_) return;
  config_.job.output = temporary_.write("file", "") / "run";
  test::expect_error(ExitCode::kIo, {"directory", "file/run"},
                     [&] { const RunDirectory directory(config_, comm_); });
}

}  // namespace
}  // namespace sluice
