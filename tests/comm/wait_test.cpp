// Waiting: deadlines that explain themselves, and what it costs.
#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "support/mpi_test.hpp"
#include "support/sanitizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace sluice {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

/// Of a waiting rank's time, in use. A rank that polls without pause uses all of it.
#ifdef SLUICE_ADDRESS_SANITIZER
constexpr double kMaxInUse = 0.2;  // the checks of each access included
#else
constexpr double kMaxInUse = 0.05;
#endif

void sleep_seconds(double seconds) { std::this_thread::sleep_for(Seconds(seconds)); }

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInternal);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Wait, a_barrier_that_one_rank_misses_names_that_rank_when_the_deadline_passes) {
  Communicator& world = test::test_world();
  const int late = world.size() - 1;
  const auto lost = world.split(0, 0);
  if (world.rank() == late) {
    sleep_seconds(0.5);
  } else {
    lost->set_deadline("load", 0.2);
    const std::string text = error_of([&] { lost->barrier(); });
    EXPECT_THAT(text, HasSubstr("load: barrier #1 on rank " + std::to_string(world.rank())));
    EXPECT_THAT(text, HasSubstr("for rank " + std::to_string(late)));
  }
  // The late rank's half of the barrier is still to come; the others' is on its way already.
  if (world.rank() == late) lost->barrier();
  world.barrier();
}

TEST(Wait, ranks_in_different_collectives_wait_instead_of_mixing_their_data) {
  Communicator& world = test::test_world();
  const auto torn = world.split(0, 0);
  torn->set_deadline("step", 0.2);
  std::vector<std::int64_t> values{1};
  const std::string text = error_of([&] {
    if (world.rank() == 0)
      torn->barrier();
    else
      torn->all_reduce_sum(std::span<std::int64_t>(values));
  });
  EXPECT_THAT(text, HasSubstr(world.rank() == 0 ? "barrier #1 on rank 0" : "all_reduce_sum #1 on rank"));
  EXPECT_EQ(values[0], 1);
  world.barrier();
}

/// Rank 0 calls with another length than the others, in messages of at most so many bytes.
std::string gathered_with(std::int64_t first, std::int64_t others, std::int64_t message_limit_bytes) {
  Communicator& world = test::test_world();
  const auto torn = test::mpi_environment().make_world(message_limit_bytes);
  torn->set_deadline("step", 5);
  const std::int64_t own = world.rank() == 0 ? first : others;
  const std::vector<std::int64_t> bytes(static_cast<std::size_t>(world.size()), own);
  const std::string in(static_cast<std::size_t>(own), 'x');
  std::string out(static_cast<std::size_t>(own * world.size()), ' ');
  const std::string text = error_of([&] { torn->all_gather(in.data(), out.data(), bytes).wait(); });
  world.barrier();
  return text;
}

TEST(Wait, ranks_that_gather_other_lengths_name_each_other_instead_of_mixing_their_data) {
  const int rank = test::test_world().rank();
  const std::string less = gathered_with(8, 12, 100);
  if (rank == 0)
    EXPECT_THAT(less, testing::AllOf(ContainsRegex("all_gather #1 on rank 0: .*rank [12] "),
                                     HasSubstr("expected 8")));
  else
    EXPECT_THAT(less, testing::AllOf(HasSubstr("rank 0 has 8 bytes"), HasSubstr("expected 12")));
  EXPECT_THAT(less, HasSubstr("different lengths"));
}

TEST(Wait, a_message_above_the_limit_is_cut_and_its_last_piece_is_the_one_of_another_length) {
  const std::string text = gathered_with(8, 9, 5);
  EXPECT_THAT(text, HasSubstr(test::test_world().rank() == 0 ? "expected 3" : "expected 4"));
}

TEST(Wait, ranks_that_reduce_other_types_wait_instead_of_mixing_their_data) {
  Communicator& world = test::test_world();
  const auto torn = world.split(0, 0);
  torn->set_deadline("step", 0.2);
  std::vector<std::int64_t> integers{1};
  std::vector<double> numbers{1};
  const std::string text = error_of([&] {
    if (world.rank() == 0)
      torn->all_reduce_sum(std::span<double>(numbers));
    else
      torn->all_reduce_sum(std::span<std::int64_t>(integers));
  });
  EXPECT_THAT(text, HasSubstr("all_reduce_sum #1 on rank"));
  EXPECT_EQ(integers[0], 1);
  EXPECT_EQ(numbers[0], 1);
  world.barrier();
}

TEST(Wait, a_message_that_never_comes_names_its_sender) {
  Communicator& world = test::test_world();
  const auto lost = world.split(0, 0);
  lost->set_deadline("load", 0.1);
  char byte = 0;
  if (world.rank() == 0) {
    const std::string text = error_of([&] { lost->receive(&byte, 1, 1, 0).wait(); });
    EXPECT_THAT(text, HasSubstr("receive #1 on rank 0 waited"));
    EXPECT_THAT(text, HasSubstr("for rank 1"));
  }
  world.barrier();
}

TEST(Wait, a_waiting_rank_leaves_the_core_to_others) {
  Communicator& world = test::test_world();
  world.barrier();
  const double before = cpu_seconds();
  constexpr double kLate = 2.0;
  if (world.rank() == 0) sleep_seconds(kLate);
  world.barrier();
  EXPECT_LT(cpu_seconds() - before, kMaxInUse * kLate);
}

}  // namespace
}  // namespace sluice
