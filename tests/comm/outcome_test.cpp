#include "comm/outcome.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace sluice {
namespace {

using testing::HasSubstr;

TEST(Outcome, our_own_errors_keep_their_code_id_and_text) {
  const Outcome failure = outcome_of([] {
    fail({ExitCode::kBadData, "io.damaged"}, "{} is short", "a.safetensors");
  });
  EXPECT_EQ(failure.code, ExitCode::kBadData);
  EXPECT_EQ(failure.id.text(), "io.damaged");
  EXPECT_EQ(failure.text, "a.safetensors is short");
  EXPECT_EQ(failure.text_with_id(), "a.safetensors is short [io.damaged]");
}

TEST(Outcome, refused_memory_says_what_is_available_and_which_limits_there_are) {
  const Outcome failure = outcome_of([] { throw std::bad_alloc(); });
  EXPECT_EQ(failure.code, ExitCode::kTooLittle);
  EXPECT_THAT(failure.text, HasSubstr("out of memory"));
  EXPECT_THAT(failure.text, HasSubstr("load.memory_limit"));
}

TEST(Outcome, what_the_system_refuses_of_a_path_is_an_error_of_input_and_output) {
  const Outcome failure = outcome_of([] {
    throw std::filesystem::filesystem_error("cannot copy", std::make_error_code(std::errc::io_error));
  });
  EXPECT_EQ(failure.code, ExitCode::kIo);
}

TEST(Outcome, of_a_step_that_throws_nothing_is_no_failure) {
  const Outcome outcome = outcome_of([] {});
  EXPECT_FALSE(outcome.failed());
  EXPECT_EQ(outcome.text_with_id(), "");
}

TEST(Outcome, travels_as_bytes_with_any_text) {
  const Outcome failure{{ExitCode::kNumerics, "train.not_finite"},
                        std::string("two lines\n\0 and a zero", 22)};
  const Outcome back = Outcome::from_bytes(failure.to_bytes());
  EXPECT_EQ(back.code, failure.code);
  EXPECT_EQ(back.id, failure.id);
  EXPECT_EQ(back.text, failure.text);
  EXPECT_FALSE(Outcome::from_bytes(Outcome{}.to_bytes()).failed());
}

TEST(Outcome, anything_else_is_internal) {
  const Outcome standard = outcome_of([] { throw std::runtime_error("what it says"); });
  EXPECT_EQ(standard.code, ExitCode::kInternal);
  EXPECT_EQ(standard.text, "what it says");
  EXPECT_EQ(outcome_of([] { throw 3; }).code, ExitCode::kInternal);
}

}  // namespace
}  // namespace sluice
