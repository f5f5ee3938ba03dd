#include "base/error.hpp"
#include "job/commands/commands.hpp"
#include "launch/slurm/allocation.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A Slurm that writes down what it is asked, and says that every job runs.
class RequeueTest : public testing::Test {
 protected:
  RequeueTest() {
    const fs::path program =
        directory_.write("scontrol", "#!/bin/sh\necho \"$*\" >> '" + asked_.string() +
                                         "'\necho 'JobId=1 JobState=RUNNING Reason=None'\n");
    fs::permissions(program, fs::perms::owner_all);
    ::setenv("PATH", ((directory_ / "").string() + ":/usr/bin:/bin").c_str(), 1);
    fs::create_directories(run_);
    std::ofstream(job_) << "[job]\nkind = \"load\"\noutput = \"" << run_.string()
                        << "\"\n[model]\npath = \"m\"\n";
    set({});
  }
  ~RequeueTest() override { set({}); }

  static void set(const std::map<std::string, std::string>& variables) {
    for (const char* name : {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_HET_JOB_ID"})
      ::unsetenv(name);
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
  int requeue() const {
    CLI::App app;
    CommandLine line{.app = app};
    add_requeue(line);
    app.parse("requeue " + job_.string());
    return line.action();
  }
  [[nodiscard]] nlohmann::json record() const {
    return nlohmann::json::parse(text_of(run_ / "requeues.json"));
  }

  test::TemporaryDirectory directory_;
  const fs::path asked_ = directory_ / "asked", run_ = directory_ / "run", job_ = directory_ / "job.toml";
};

TEST_F(RequeueTest, a_job_goes_by_its_number) {
  set({{"SLURM_JOB_ID", "17"}});
  EXPECT_EQ(requeue(), 0);
  EXPECT_EQ(text_of(asked_), "show job 17 --oneliner\nrequeue 17\n");
  EXPECT_EQ(record()["slurm_job"], "17");
}

TEST_F(RequeueTest, a_task_of_an_array_goes_by_its_own_name) {
  set({{"SLURM_JOB_ID", "36"}, {"SLURM_ARRAY_JOB_ID", "36"}, {"SLURM_ARRAY_TASK_ID", "3"}});
  EXPECT_EQ(requeue(), 0);
  EXPECT_EQ(text_of(asked_), "show job 36_3 --oneliner\nrequeue 36_3\n");
  EXPECT_EQ(record()["slurm_job"], "36_3");
}

TEST_F(RequeueTest, a_component_of_a_heterogeneous_job_goes_by_its_leader) {
  set({{"SLURM_JOB_ID", "41"}, {"SLURM_HET_JOB_ID", "40"}});
  EXPECT_EQ(requeue(), 0);
  EXPECT_EQ(text_of(asked_), "show job 40 --oneliner\nrequeue 40\n");
}

TEST_F(RequeueTest, what_an_earlier_version_has_counted_counts) {
  set({{"SLURM_JOB_ID", "38"}, {"SLURM_ARRAY_JOB_ID", "36"}, {"SLURM_ARRAY_TASK_ID", "2"}});
  for (const char* earlier : {"38", "36_2"}) {
    std::ofstream(run_ / "requeues.json")
        << R"({"slurm_job": ")" << earlier << R"(", "count": 4, "without_progress": 1, "saved_step": 0})";
    EXPECT_EQ(requeue(), 0);
    EXPECT_EQ(
        record(),
        (nlohmann::json{{"slurm_job", "36_2"}, {"count", 5}, {"without_progress", 2}, {"saved_step", 0}}));
    test::expect_error(ExitCode::kResumable, {"36_2", "3 restarts"}, [&] { requeue(); });
  }
}

TEST_F(RequeueTest, outside_slurm_there_is_nothing_to_requeue) {
  EXPECT_FALSE(slurm_job_name());
  test::expect_error(ExitCode::kUsage, {"SLURM_JOB_ID"}, [&] { requeue(); });
}

}  // namespace
}  // namespace sluice
