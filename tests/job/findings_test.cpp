#include "job/commands/findings.hpp"

#include "support/temporary_directory.hpp"

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

void expect_place(std::string_view text, std::string_view file, std::string_view key) {
  const FailurePlace place = place_of(text);
  EXPECT_EQ(place.file, file) << text;
  EXPECT_EQ(place.key, key) << text;
}

TEST(FailurePlace, is_the_file_and_the_key_with_which_a_text_begins) {
  const test::TemporaryDirectory directory;
  const std::string model = directory.path().string();
  expect_place("runs/job.toml:3:1: train.step: unknown key, expected train.steps", "runs/job.toml",
               "train.step");
  expect_place("job.toml:7:2: found a number\n: expected", "job.toml", "");
  expect_place("train.steps: found 0, expected at least 1", "", "train.steps");
  expect_place("model.path: " + model + ": found no weights", model, "model.path");
  expect_place("checkpoint.resume: " + model + " was saved by another", model, "checkpoint.resume");
  expect_place(model + ": is no model", model, "");
}

TEST(FailurePlace, is_not_found_in_the_words_of_a_text) {
  expect_place("the machine of rank 0 must hold 3 GB: too little", "", "");
  expect_place("no.such_key: is a word with a dot", "", "");
  expect_place("found train.steps: in the middle", "", "");
  expect_place("", "", "");
}

}  // namespace
}  // namespace sluice
