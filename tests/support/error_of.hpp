// What a call's Error says.
#pragma once

#include "base/error.hpp"

#include <fmt/format.h>

#include <functional>
#include <string>

namespace sluice::test {

/// What an Error says, with its code: "65: …"; "" if `call` throws none.
[[nodiscard]] inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return fmt::format("{}: {}", static_cast<int>(error.code()), error.what());
  }
  return "";
}

}  // namespace sluice::test
