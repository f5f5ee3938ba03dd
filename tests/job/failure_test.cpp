#include "job/failure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <stdexcept>

namespace sluice {
namespace {

using testing::HasSubstr;

Failure failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (...) {
    return current_failure();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(Failure, our_own_errors_keep_their_code_and_text) {
  const Failure failure = failure_of([] { fail(ExitCode::kBadData, "{} is short", "a.safetensors"); });
  EXPECT_EQ(failure.code, ExitCode::kBadData);
  EXPECT_EQ(failure.text, "a.safetensors is short");
}

TEST(Failure, refused_memory_says_what_is_available_and_which_limits_there_are) {
  const Failure failure = failure_of([] { throw std::bad_alloc(); });
  EXPECT_EQ(failure.code, ExitCode::kTooLittle);
  EXPECT_THAT(failure.text, HasSubstr("out of memory"));
  EXPECT_THAT(failure.text, HasSubstr("load.memory_limit"));
}

TEST(Failure, anything_else_is_internal) {
  const Failure standard = failure_of([] { throw std::runtime_error("what it says"); });
  EXPECT_EQ(standard.code, ExitCode::kInternal);
  EXPECT_EQ(standard.text, "what it says");
  EXPECT_EQ(failure_of([] { throw 3; }).code, ExitCode::kInternal);
}

}  // namespace
}  // namespace sluice
