#include "base/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace sluice {
namespace {

TEST(Error, carries_its_exit_code_and_text) {
  try {
    fail(ExitCode::kIo, "cannot read {}: {}", "a.bin", 7);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kIo);
    EXPECT_STREQ(error.what(), "cannot read a.bin: 7");
    return;
  }
  FAIL() << "fail() returned";
}

TEST(Error, carries_the_id_of_its_cause) {
  const Error error({ExitCode::kBadConfig, "config.unknown_key"}, "unknown key");
  EXPECT_EQ(error.code(), ExitCode::kBadConfig);
  EXPECT_EQ(error.cause().id.text(), "config.unknown_key");
}

TEST(Error, without_an_id_has_that_of_the_folder_that_throws_it) {
  EXPECT_EQ(Cause(ExitCode::kIo).id.text(), "tests.other");
  EXPECT_EQ(FailureId::other("src/weights/weight_map.cpp").text(), "weights.other");
  EXPECT_EQ(FailureId::other("/home/someone/src/sluice/src/job/run/run_job.cpp").text(), "job.other");
  EXPECT_EQ(FailureId::other("jobs/train.cpp").text(), "jobs.other");
}

TEST(Cause, of_an_end_without_a_failure_has_no_id) { EXPECT_EQ(Cause(ExitCode::kDone).id, FailureId()); }

TEST(FailureId, is_cut_where_it_is_too_long) {
  EXPECT_EQ(FailureId(std::string(100, 'a')).text(), std::string(39, 'a'));
}

TEST(FailureId, ends_the_first_line_of_a_text) {
  EXPECT_EQ(with_id("no such key", "config.unknown_key"), "no such key [config.unknown_key]");
  EXPECT_EQ(with_id("two\nlines", "io.read"), "two [io.read]\nlines");
}

TEST(WriteFailure, tells_a_full_disk_from_other_failures) {
  EXPECT_EQ(write_failure(ENOSPC).id.text(), "io.no_space");
  EXPECT_EQ(write_failure(EDQUOT).id.text(), "io.no_space");
  EXPECT_EQ(write_failure(EIO).id.text(), "io.write");
  EXPECT_EQ(write_failure(EIO).code, ExitCode::kIo);
}

TEST(Assert, names_condition_and_values_only_when_broken) {
  int formatted = 0;
  const auto text = [&] { return ++formatted; };
  SLUICE_ASSERT(1 + 1 == 2, "{}", text());
  EXPECT_EQ(formatted, 0);
  try {
    SLUICE_ASSERT(1 + 1 == 3, "the sum is {}", 2);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInternal);
    EXPECT_THAT(error.what(), testing::HasSubstr("1 + 1 == 3"));
    EXPECT_THAT(error.what(), testing::HasSubstr("the sum is 2"));
    return;
  }
  FAIL() << "the assertion held";
}

TEST(ErrnoText, has_words_and_number) {
  EXPECT_EQ(errno_text(ENOENT), "No such file or directory (errno 2)");
}

}  // namespace
}  // namespace sluice
