// Outcome of a step on one rank, in the form in which other ranks, the user and the exit code learn of it.
#pragma once

#include "base/error.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace sluice {

/// Exit code and text of a failure, or success.
struct Outcome {
  ExitCode code = ExitCode::kDone;  ///< exit code; kDone: no failure
  std::string text{};               ///< text of the failure for the user

  [[nodiscard]] bool failed() const { return code != ExitCode::kDone; }

  /// Throws Error(code) with the text if something failed.
  void throw_if_failed() const;

  /// Serialized form for messages between the ranks of a job; exact both ways.
  [[nodiscard]] std::string to_bytes() const;
  [[nodiscard]] static Outcome from_bytes(std::string_view bytes);
};

/// Outcome of the exception being handled, whatever its type; call it inside a catch block.
[[nodiscard]] Outcome current_failure();

/// Runs `step` and catches what it throws.
[[nodiscard]] Outcome outcome_of(const std::function<void()>& step);

}  // namespace sluice
