#include "process/console.hpp"

#include <gtest/gtest.h>

namespace sluice::console {
namespace {

TEST(ConsoleTable, aligns_the_first_column_to_the_left_and_others_to_the_right) {
  EXPECT_EQ(table({{"rank", "received"}, {"rank 10", "1"}, {"r", "12.5 MiB"}}),
            "  rank     received\n"
            "  rank 10         1\n"
            "  r        12.5 MiB");
}

TEST(ConsoleTable, takes_rows_of_different_lengths) {
  EXPECT_EQ(table({{"a"}, {"b", "2", "three"}}), "  a\n  b  2  three");
  EXPECT_EQ(table({}), "");
}

TEST(Console, lines_are_out_at_once_and_braces_in_values_are_only_text) {
  testing::internal::CaptureStdout();
  line("{} is {:.1f}", "{x}", 2.0);
  raw("\rhalf a line");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "{x} is 2.0\n\rhalf a line");
}

TEST(Console, reports_go_to_stderr) {
  testing::internal::CaptureStderr();
  report("it ends");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "it ends\n");
}

}  // namespace
}  // namespace sluice::console
