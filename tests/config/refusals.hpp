// Job files that are refused, and with which text.
#pragma once

#include "base/error.hpp"
#include "config/job_config.hpp"
#include "config/least_job.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace sluice::test {

/// A job without data.tokens.
inline const std::string kNoTokens = "[job]\noutput = 'r'\n[model]\npath = 'm'\n";

struct Refusal {
  ExitCode code = ExitCode::kDone;
  std::string text;
};

template <class Function>
Refusal refusal_of(Function&& function) {
  try {
    static_cast<void>(function());
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

inline Refusal refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return refusal_of([&] { return parse_job_config(text, "job.toml", overrides); });
}

/// The text that a job file gets which is right but for these lines.
inline std::string complaint(const std::string& lines, const std::vector<std::string>& overrides = {}) {
  const Refusal result = refusal(kMinJob + lines, overrides);
  EXPECT_EQ(result.code, result.text.empty() ? ExitCode::kDone : ExitCode::kBadConfig);
  return result.text;
}

/// One problem and no other: it begins with its place and key, and names each of these.
inline testing::Matcher<std::string> names_alone(const std::string& place,
                                                 const std::vector<std::string>& parts) {
  std::vector<testing::Matcher<std::string>> all{testing::StartsWith(place + ": "),
                                                 testing::Not(testing::HasSubstr("\n"))};
  for (const std::string& part : parts) all.emplace_back(testing::HasSubstr(part));
  return testing::AllOfArray(all);
}

}  // namespace sluice::test
