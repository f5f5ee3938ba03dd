#include "train/guard/rank_comparison.hpp"

#include "support/expect_error.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice {
namespace {

CommonValues after_step_seven() {
  return {.step = 7,
          .updates = 7,
          .learning_rate = 1e-4,
          .loss = 2.5,
          .grad_norm = 0.25,
          .expert_tokens = {3, 4}};
}

TEST(RankComparison, takes_equal_numbers_in_silence) {
  require_same_on_all_ranks(test::test_world(), after_step_seven());
}

TEST(RankComparison, names_a_number_that_is_off_by_one_bit_on_every_rank) {
  Communicator& comm = test::test_world();
  CommonValues values = after_step_seven();
  if (comm.rank() > 0) values.loss = std::nextafter(values.loss, 3);
  if (comm.size() == 1) return require_same_on_all_ranks(comm, values);
  test::expect_error(ExitCode::kInternal,
                     {"after step 7", "value loss: 2.5 on rank", "2.5000000000000004 on rank"},
                     [&] { require_same_on_all_ranks(comm, values); });
}

TEST(RankComparison, finds_other_expert_counts) {
  Communicator& comm = test::test_world();
  CommonValues values = after_step_seven();
  values.expert_tokens[0] += comm.rank();
  if (comm.size() == 1) return require_same_on_all_ranks(comm, values);
  test::expect_error(ExitCode::kInternal, {"expert token counts"},
                     [&] { require_same_on_all_ranks(comm, values); });
}

}  // namespace
}  // namespace sluice
