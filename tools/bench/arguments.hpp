// Numbers on the command line of a benchmark.
#pragma once

#include "base/error.hpp"

#include <charconv>
#include <concepts>
#include <string>
#include <system_error>

namespace sluice {

/// Error(kUsage) unless `text` is a whole number from 1 on that the type holds.
template <std::integral Number = int>
[[nodiscard]] Number count_in(const std::string& text) {
  Number count = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc() || stop != end || count < 1)
    fail(ExitCode::kUsage, "'{}' is no number from 1 on", text);
  return count;
}

}  // namespace sluice
