#include "job/commands/findings.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Findings, of_nothing_wrong_are_empty) {
  Findings findings;
  findings.examine([] {});
  EXPECT_TRUE(findings.empty());
  EXPECT_EQ(findings.code(), ExitCode::kDone);
}

TEST(Findings, are_told_as_they_are_if_there_is_one) {
  Findings findings;
  findings.examine([] { fail({ExitCode::kIo, "io.no_space"}, "the disk is full"); });
  EXPECT_EQ(findings.text("job.toml"), "the disk is full [io.no_space]");
  EXPECT_EQ(findings.code(), ExitCode::kIo);
}

TEST(Findings, come_in_order_and_once_and_the_first_has_the_code) {
  Findings findings;
  findings.examine([] { fail({ExitCode::kBadData, "data.no_target"}, "no tokens"); });
  findings.examine([] { fail({ExitCode::kTooLittle, "job.memory"}, "no memory"); });
  findings.examine([] { fail({ExitCode::kBadData, "data.no_target"}, "no tokens"); });
  EXPECT_EQ(
      findings.text("job.toml"),
      "job.toml: 2 things are wrong\n1. no tokens [data.no_target] (exit code 65)\n2. no memory [job.memory] (exit code 71)");
  EXPECT_EQ(findings.code(), ExitCode::kBadData);
}

}  // namespace
}  // namespace sluice
