// Any exception as what a user is told and what the process returns.
#pragma once

#include "base/error.hpp"

#include <string>

namespace sluice {

struct Failure {
  ExitCode code = ExitCode::kInternal;
  std::string text;
};

/// Of the exception being handled; call it inside a catch block.
[[nodiscard]] Failure current_failure();

}  // namespace sluice
