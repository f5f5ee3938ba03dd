#include "launch/slurm/allocation.hpp"

#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sluice {
namespace {

using test::TemporaryDirectory;

/// A Slurm that answers what a shell script says.
class AllocationTest : public testing::Test {
 protected:
  void answer(const std::string& script) {
    std::ofstream(directory_ / "squeue") << "#!/bin/sh\n" << script << '\n';
    std::filesystem::permissions(directory_ / "squeue", std::filesystem::perms::owner_all);
    ::setenv("PATH", ((directory_ / "").string() + ":/usr/bin:/bin").c_str(), 1);
    ::setenv("SLURM_JOB_ID", "17", 1);
  }
  void announce(std::int64_t seconds) {
    const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    ::setenv("SLURM_JOB_END_TIME", std::to_string(now + seconds).c_str(), 1);
  }
  ~AllocationTest() override {
    ::unsetenv("SLURM_JOB_ID");
    ::unsetenv("SLURM_JOB_END_TIME");
  }

 private:
  TemporaryDirectory directory_;
};

TEST(SlurmTime, is_read_as_squeue_writes_it) {
  EXPECT_EQ(parse_slurm_time("0:05"), 5);
  EXPECT_EQ(parse_slurm_time("59:00"), 59 * 60);
  EXPECT_EQ(parse_slurm_time("23:59:59"), 24 * 3600 - 1);
  EXPECT_EQ(parse_slurm_time("2-01:00:00"), 49 * 3600);
  for (const char* text : {"", "UNLIMITED", "INVALID", "5", "1:", "1:2:3:4", "-1:00", "1-", "x-1:00"})
    EXPECT_FALSE(parse_slurm_time(text)) << text;
}

TEST_F(AllocationTest, is_unknown_outside_slurm) {
  Allocation allocation;
  EXPECT_FALSE(allocation.seconds_left());
  EXPECT_FALSE(allocation.ends_within(1e9));
}

TEST_F(AllocationTest, is_asked_of_squeue) {
  answer("[ \"$*\" = '--noheader --format=%L --jobs=17' ] && echo 1:40");
  Allocation allocation;
  ASSERT_TRUE(allocation.seconds_left());
  EXPECT_NEAR(*allocation.seconds_left(), 100, 5);
  EXPECT_FALSE(allocation.ends_within(60));
  EXPECT_TRUE(allocation.ends_within(200));
}

TEST_F(AllocationTest, is_known_from_the_environment_and_asked_again_before_anything_is_done) {
  announce(100);
  answer("echo 1-00:00:00");
  Allocation allocation;
  EXPECT_NEAR(*allocation.seconds_left(), 100, 5);
  EXPECT_FALSE(allocation.ends_within(200)) << "the limit was raised";
  EXPECT_NEAR(*allocation.seconds_left(), 24 * 3600, 5);
}

TEST_F(AllocationTest, stays_as_it_was_where_slurm_does_not_answer) {
  announce(100);
  answer("exit 1");
  Allocation allocation;
  EXPECT_TRUE(allocation.ends_within(200));
}

TEST_F(AllocationTest, has_no_end_without_a_limit) {
  answer("echo UNLIMITED");
  Allocation allocation;
  EXPECT_FALSE(allocation.ends_within(1e9));
}

}  // namespace
}  // namespace sluice
