#include "corpus/helper_process.hpp"

#include "base/clock.hpp"
#include "support/expect_error.hpp"

#include <gmock/gmock.h>

namespace sluice::corpus {
namespace {

using test::expect_error;

TEST(HelperProcess, answers_each_line_with_a_line) {
  HelperProcess echo({"sed", "-u", "s/a/b/g"});
  EXPECT_EQ(echo.ask("banana", 20, "bananas"), "bbnbnb");
  EXPECT_EQ(echo.ask("", 20, "nothing"), "");
}

TEST(HelperProcess, that_has_ended_answers_nothing) {
  HelperProcess ends({"true"});
  EXPECT_EQ(ends.ask("a", 20, "an answer"), std::nullopt);
}

TEST(HelperProcess, that_does_not_answer_is_ended_at_its_deadline) {
  HelperProcess sleeps({"sleep", "100"});
  const Stopwatch clock;
  expect_error(ExitCode::kBadData, {"the layout"},
               [&] { static_cast<void>(sleeps.ask("a", 0.2, "the layout")); });
  EXPECT_LT(clock.seconds(), 20);
  EXPECT_EQ(sleeps.ask("a", 20, "more"), std::nullopt);
}

TEST(HelperProcess, that_cannot_be_started_is_the_machines_lack) {
  expect_error(ExitCode::kTooLittle, {"no-such-program"}, [] { HelperProcess({"no-such-program"}); });
}

}  // namespace
}  // namespace sluice::corpus
