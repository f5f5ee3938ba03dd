#include "io/child_program.hpp"

#include "base/clock.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(ChildProgram, answers_each_line_with_a_line) {
  ChildProgram echo({"sed", "-u", "s/a/b/g"});
  EXPECT_EQ(echo.ask("banana", Deadline(20)), "bbnbnb");
  EXPECT_EQ(echo.ask("", Deadline(20)), "");
  const std::string long_line(1'000'000, 'a');
  EXPECT_EQ(echo.ask(long_line, Deadline(20)), std::string(long_line.size(), 'b'));
}

TEST(ChildProgram, that_has_ended_answers_nothing) {
  ChildProgram ends({"true"});
  EXPECT_EQ(ends.ask("a", Deadline(20)), std::nullopt);
  EXPECT_EQ(ends.wait_until(Deadline(20)), 0);
}

TEST(ChildProgram, that_does_not_answer_gives_nothing_at_the_deadline) {
  ChildProgram sleeps({"sleep", "100"});
  const Deadline deadline(0.2);
  EXPECT_EQ(sleeps.ask("a", deadline), std::nullopt);
  EXPECT_TRUE(deadline.passed());
}

TEST(ChildProgram, keeps_its_error_output_apart) {
  ChildProgram says({"sh", "-c", "echo wrong >&2; read -r line; echo right"}, ErrorOutput::kKept);
  EXPECT_EQ(says.ask("go", Deadline(20)), "right");
  EXPECT_EQ(says.error_output(), "wrong\n");
}

TEST(ChildProgram, that_cannot_be_started_is_the_machines_lack) {
  test::expect_error(ExitCode::kTooLittle, {"no-such-program"}, [] { ChildProgram({"no-such-program"}); });
}

TEST(RunProgram, gives_its_output_and_its_exit_status) {
  const auto result = run_program({"sh", "-c", "echo one; echo two >&2; exit 3"}, 20);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output, "one\ntwo\n");
  EXPECT_EQ(result->status, 3);
}

TEST(RunProgram, tells_a_signal_as_a_shell_does) {
  const auto result = run_program({"sh", "-c", "kill -9 $$"}, 20);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 128 + 9);
}

TEST(RunProgram, keeps_no_more_than_64_kib) {
  const auto result = run_program({"sh", "-c", "head -c 1000000 /dev/zero"}, 20);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output.size(), 64U * 1024);
}

TEST(RunProgram, gives_it_no_input) {
  const auto result = run_program({"cat"}, 20);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output, "");
}

TEST(RunProgram, is_nothing_where_it_cannot_start) { EXPECT_FALSE(run_program({"/no/such/program"}, 20)); }

TEST(RunProgram, is_ended_at_its_deadline) {
  for (const char* script : {"sleep 60", "exec >&- 2>&-; sleep 60"}) {
    const Stopwatch watch;
    EXPECT_FALSE(run_program({"sh", "-c", script}, 0.2));
    EXPECT_LT(watch.seconds(), 20);
  }
}

}  // namespace
}  // namespace sluice
