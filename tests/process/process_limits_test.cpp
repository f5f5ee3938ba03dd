#include "process/process_limits.hpp"

#include "base/bytes.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <cstdio>
#include <cstdlib>

namespace sluice {
namespace {

TEST(ProcessLimits, are_none_unless_somebody_sets_some) { require_room_for_libraries({}, 64); }

TEST(ProcessLimits, that_are_too_small_for_the_libraries_are_refused_with_their_numbers) {
  test::expect_error(
      ExitCode::kTooLittle,
      {"50.00 MB of data", "ulimit -d", "prlimit --data", "with 1 thread before", "too little"},
      [] { require_room_for_libraries({.data_bytes = 50'000'000}, 1); });
  test::expect_error(ExitCode::kTooLittle,
                     {"1.02 GB of address space", "ulimit -v", "prlimit --as", "with 2 threads"},
                     [] { require_room_for_libraries({.address_space_bytes = 1024 * 1000 * 1000}, 2); });
}

TEST(ProcessLimits, that_are_large_enough_for_few_threads_may_be_too_small_for_many) {
  require_room_for_libraries({.data_bytes = kGiB}, 2);
  test::expect_error(ExitCode::kTooLittle, {"with 16 threads"},
                     [] { require_room_for_libraries({.data_bytes = kGiB}, 16); });
}

TEST(ProcessLimits, leave_what_the_process_does_not_have_yet) {
  EXPECT_EQ(left_of_limits({}), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(left_of_limits({.data_bytes = 1}), 0);
  constexpr std::int64_t kMuch = kGiB << 20;  // AddressSanitizer reserves terabytes
  const std::int64_t left = left_of_limits({.data_bytes = kMuch});
  EXPECT_GT(left, kMuch / 2);
  EXPECT_LT(left, kMuch);
}

TEST(ProcessLimitsDeathTest, too_few_descriptors_are_named) {
  const auto with_few = [] {
    const rlimit few{32, 32};
    setrlimit(RLIMIT_NOFILE, &few);
    try {
      require_descriptors();
    } catch (const Error& error) {
      static_cast<void>(std::fprintf(stderr, "%s\n", error.what()));
      std::_Exit(static_cast<int>(error.code()));
    }
  };
  EXPECT_EXIT(with_few(), testing::ExitedWithCode(71),
              "may open 32 files at a time .ulimit -n., and .* at least 64");
}

TEST(Threads, are_the_ranks_part_of_the_cores_that_it_shares) {
  EXPECT_EQ(threads_per_rank(0, 8, 1, 100), 8);
  EXPECT_EQ(threads_per_rank(0, 8, 3, 100), 2);
  EXPECT_EQ(threads_per_rank(0, 8, 9, 100), 1);
  EXPECT_EQ(threads_per_rank(5, 8, 3, 1), 5) << "what is asked for";
  EXPECT_EQ(threads_per_rank(0, 8, 2, 3), 3);
}

TEST(Threads, share_cores_only_where_more_are_asked_for) {
  constexpr int kCores = 8;
  EXPECT_FALSE(asks_for_shared_cores(0, kCores, kCores, 9));
  EXPECT_FALSE(asks_for_shared_cores(8, kCores, kCores, 1));
  EXPECT_FALSE(asks_for_shared_cores(2, kCores, kCores, 3));
  EXPECT_TRUE(asks_for_shared_cores(3, kCores, kCores, 3));
  EXPECT_TRUE(asks_for_shared_cores(9, kCores, kCores, 1));
}

TEST(Threads, of_ranks_with_cores_of_their_own_share_none) {
  constexpr int kOnline = 64;
  EXPECT_FALSE(asks_for_shared_cores(8, 8, kOnline, 3));
  EXPECT_TRUE(asks_for_shared_cores(9, 8, kOnline, 3));
  EXPECT_TRUE(asks_for_shared_cores(40, 40, kOnline, 3))
      << "there are not 40 for each: a job's part of the machine";
}

TEST(Threads, know_the_ranks_of_their_node_from_the_launcher) {
  unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  unsetenv("SLURM_STEP_TASKS_PER_NODE");
  EXPECT_EQ(announced_local_ranks(), 1);
  setenv("SLURM_STEP_TASKS_PER_NODE", "3(x2),1", 1);
  EXPECT_EQ(announced_local_ranks(), 3);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
  EXPECT_EQ(announced_local_ranks(), 2);
}

}  // namespace
}  // namespace sluice
