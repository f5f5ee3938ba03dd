#include "job/threads.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace sluice {
namespace {

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
