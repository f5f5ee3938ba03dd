#include "comm/mpi/mpi_environment.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(MpiEnvironment, all_ranks_of_one_machine_are_local) {
  const MpiEnvironment& mpi = test::mpi_environment();
  EXPECT_EQ(mpi.local_size(), test::test_world().size());
  EXPECT_EQ(mpi.local_rank(), test::test_world().rank());
}

TEST(MpiEnvironment, ranks_that_nobody_pinned_share_their_cores) {
  EXPECT_EQ(test::mpi_environment().sharing_ranks(), test::test_world().size());
}

TEST(MpiEnvironment, of_ranks_that_fail_together_the_lowest_explains) {
  EXPECT_EQ(test::mpi_environment().elect_failure_reporter(), test::test_world().rank() == 0);
}

TEST(MpiEnvironment, the_library_names_itself) {
  const std::string version = MpiEnvironment::library_version();
  EXPECT_FALSE(version.empty());
  EXPECT_EQ(version.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace sluice
