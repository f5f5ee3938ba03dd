#include "launch/slurm/submission.hpp"

#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace sluice {
namespace {

using Numbers = std::vector<std::int64_t>;

TEST(SbatchOptions, are_found_in_each_spelling) {
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{
           {"--array=1-3"}, {"--array", "1-3"}, {"-a1-3"}, {"-a", "1-3"}, {"-a5", "--nodes=1", "-a1-3"}})
    EXPECT_EQ(option_value(options, "--array", "-a"), "1-3");
  EXPECT_FALSE(option_value({"--array-x=1", "--account=a", "--array"}, "--array", "-a"));
}

TEST(SbatchOptions, name_the_tasks_of_an_array) {
  EXPECT_EQ(task_numbers("1-3"), (Numbers{1, 2, 3}));
  EXPECT_EQ(task_numbers("0-15:5,20%2"), (Numbers{0, 5, 10, 15, 20}));
  EXPECT_EQ(task_numbers("7"), (Numbers{7}));
  for (const char* wrong : {"", "x", "%2"})
    test::expect_error(ExitCode::kUsage, {"--array"}, [&] { static_cast<void>(task_numbers(wrong)); });
}

TEST(SbatchOptions, say_how_many_ranks_there_will_be) {
  EXPECT_EQ(rank_count({}), 3);
  EXPECT_EQ(rank_count({"--nodes=5"}), 5);
  EXPECT_EQ(rank_count({"-N2", "--ntasks-per-node=4"}), 8);
  EXPECT_EQ(rank_count({"-N", "2-4", "--ntasks=6"}), 6);
}

TEST(Submission, the_number_of_the_job_is_in_the_answer_of_sbatch) {
  EXPECT_EQ(job_in_answer("Submitted batch job 36"), "36");
  EXPECT_EQ(job_in_answer("sbatch: a warning\nSubmitted batch job 36 on cluster c"), "36");
  EXPECT_EQ(job_in_answer("36;cluster"), "36");
  EXPECT_EQ(job_in_answer("nothing"), "");
}

/// State of a job about which squeue prints an answer and ends with a status.
std::string state_by(const std::string& answer, int status) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path program =
      directory.write("squeue", fmt::format("#!/bin/sh\necho '{}'\nexit {}\n", answer, status));
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", directory.path().c_str(), 1);
  const std::string state = queue_state("36");
  ::setenv("PATH", path.c_str(), 1);
  return state;
}

TEST(Submission, the_state_of_its_job_is_what_squeue_says) {
  EXPECT_EQ(state_by("PENDING", 0), "queued");
  EXPECT_EQ(state_by("REQUEUE_HOLD", 0), "queued");
  EXPECT_EQ(state_by("RUNNING", 0), "started");
  EXPECT_EQ(state_by("", 0), "gone") << "squeue forgets jobs that ended long ago";
  EXPECT_EQ(state_by("slurm_load_jobs error: Invalid job id specified", 1), "gone");
  EXPECT_EQ(state_by("slurm_load_jobs error: Unable to contact slurm controller", 1), "submitted");
}

}  // namespace
}  // namespace sluice
