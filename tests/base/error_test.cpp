#include "base/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

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
