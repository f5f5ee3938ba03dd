#include "job/slurm/child_program.hpp"

#include "base/clock.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(ChildProgram, gives_its_output_and_its_exit_status) {
  const auto result = run_program({"sh", "-c", "echo one; echo two >&2; exit 3"}, 20);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output, "one\ntwo\n");
  EXPECT_EQ(result->status, 3);
}

TEST(ChildProgram, tells_a_signal_as_a_shell_does) {
  const auto result = run_program({"sh", "-c", "kill -9 $$"}, 20);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 128 + 9);
}

TEST(ChildProgram, keeps_no_more_than_64_kib) {
  const auto result = run_program({"sh", "-c", "head -c 1000000 /dev/zero"}, 20);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output.size(), 64U * 1024);
}

TEST(ChildProgram, is_nothing_where_it_cannot_start) { EXPECT_FALSE(run_program({"/no/such/program"}, 20)); }

TEST(ChildProgram, is_ended_at_its_deadline) {
  for (const char* script : {"sleep 60", "exec >&- 2>&-; sleep 60"}) {
    const Stopwatch watch;
    EXPECT_FALSE(run_program({"sh", "-c", script}, 0.2));
    EXPECT_LT(watch.seconds(), 20);
  }
}

}  // namespace
}  // namespace sluice
