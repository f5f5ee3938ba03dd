#include "process/progress_line.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(ProgressLine, redraws_a_terminal_five_times_a_second) {
  ProgressLine line("load", LineStyle::kRedrawn);
  EXPECT_EQ(line.update(1'000'000'000, 61'000'000'000, 0.1), "");
  EXPECT_EQ(line.update(1'000'000'000, 61'000'000'000, 0.5),
            "\r\x1b[Kload  1.00 GB of 61.00 GB  2.00 GB/s  30 s left");
  EXPECT_EQ(line.update(1'100'000'000, 61'000'000'000, 0.6), "");
  EXPECT_EQ(line.update(61'000'000'000, 61'000'000'000, 0.65),
            "\r\x1b[Kload  61.00 GB of 61.00 GB  93.85 GB/s  0.7 s\n");
}

TEST(ProgressLine, writes_a_line_every_ten_seconds_elsewhere) {
  ProgressLine line("load", LineStyle::kAppended);
  EXPECT_EQ(line.update(1, 61, 9.9), "");
  EXPECT_EQ(line.update(1'000'000'000, 61'000'000'000, 10),
            "load  1.00 GB of 61.00 GB  0.10 GB/s  10 min 0 s left\n");
  EXPECT_EQ(line.update(2'000'000'000, 61'000'000'000, 19), "");
  EXPECT_EQ(line.update(61'000'000'000, 61'000'000'000, 19.5),
            "load  61.00 GB of 61.00 GB  3.13 GB/s  19.5 s\n");
}

TEST(ProgressLine, knows_no_rest_before_the_first_byte) {
  ProgressLine line("load", LineStyle::kAppended);
  EXPECT_EQ(line.update(0, 61, 10), "load  0 B of 61 B  0.00 GB/s\n");
}

}  // namespace
}  // namespace sluice
