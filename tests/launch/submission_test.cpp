#include "launch/slurm/submission.hpp"

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sluice
