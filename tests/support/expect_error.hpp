// Expecting our own errors: the code and what the message must say.
#pragma once

#include "base/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace sluice::test {

/// `action` throws Error with `code`, and its text has every one of `parts`.
inline void expect_error(ExitCode code, const std::vector<std::string>& parts,
                         const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    for (const std::string& part : parts) EXPECT_THAT(error.what(), testing::HasSubstr(part));
  }
}

}  // namespace sluice::test
