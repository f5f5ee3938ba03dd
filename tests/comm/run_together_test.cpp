#include "comm/run_together.hpp"

#include "comm/outcome.hpp"
#include "support/expect_error.hpp"
#include "support/mpi_test.hpp"

#include <filesystem>
#include <new>
#include <string>
#include <system_error>

namespace sluice {
namespace {

using test::expect_error;
using test::test_world;

int last_rank() { return test_world().size() - 1; }

TEST(RunTogether, an_error_on_one_rank_is_thrown_on_all_with_its_code) {
  const bool is_last = test_world().rank() == last_rank();
  const auto step = [&] {
    run_together(test_world(), [&] {
      if (is_last) fail(ExitCode::kIo, "the disk is full");
    });
  };
  const std::string origin = is_last ? "" : fmt::format("on rank {}: ", last_rank());
  expect_error(ExitCode::kIo, {origin + "the disk is full"}, step);
}

TEST(RunTogether, what_is_no_error_of_ours_has_the_code_that_it_would_end_the_program_with) {
  expect_error(ExitCode::kTooLittle, {"out of memory"},
               [] { run_together(test_world(), [] { throw std::bad_alloc(); }); });
  expect_error(ExitCode::kIo, {"cannot copy"}, [] {
    run_together(test_world(), [] {
      throw std::filesystem::filesystem_error("cannot copy", std::make_error_code(std::errc::io_error));
    });
  });
}

TEST(RunTogether, succeeds_where_no_rank_fails) {
  int calls = 0;
  run_together(test_world(), [&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(RunOnRoot, runs_on_rank_0_alone_and_its_error_is_the_same_on_every_rank) {
  int calls = 0;
  run_on_root(test_world(), [&] { ++calls; });
  EXPECT_EQ(calls, test_world().rank() == 0 ? 1 : 0);
  const auto step = [] { run_on_root(test_world(), [] { fail(ExitCode::kBadData, "a.h5 is short"); }); };
  expect_error(ExitCode::kBadData, {}, step);
  EXPECT_EQ(outcome_of(step).text, "a.h5 is short");
}

TEST(ShareFromRoot, every_rank_gets_the_bytes_of_rank_0_or_its_error) {
  std::string bytes("a\0b", 3);
  EXPECT_EQ(share_from_root(test_world(), [&] { return bytes; }), bytes);
  expect_error(ExitCode::kInternal, {"broken"}, [] {
    static_cast<void>(
        share_from_root(test_world(), []() -> std::string { throw std::runtime_error("broken"); }));
  });
}

}  // namespace
}  // namespace sluice
