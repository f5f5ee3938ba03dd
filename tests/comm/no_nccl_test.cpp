#include "base/error.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "support/mpi_test.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(NoNccl, a_communicator_is_refused_with_what_the_build_lacks) {
  try {
    const auto communicator = make_nccl_communicator(test::test_world());
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadConfig);
    EXPECT_THAT(error.what(), testing::HasSubstr("SLUICE_NCCL=ON"));
  }
}

TEST(NoNccl, the_version_says_so) { EXPECT_EQ(nccl_version_text(), "no NCCL"); }

}  // namespace
}  // namespace sluice
