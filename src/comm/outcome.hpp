// How a step went on one rank, in the one form in which the other ranks, the user and the exit code hear of it.
#pragma once

#include "base/error.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace sluice {

struct Outcome {
  ExitCode code = ExitCode::kDone;  ///< kDone: nothing failed
  std::string text{};               ///< what a user is told of the failure

  [[nodiscard]] bool failed() const { return code != ExitCode::kDone; }

  /// Throws Error(code) with the text if something failed.
  void throw_if_failed() const;

  /// As it travels between the ranks of a job; exact both ways.
  [[nodiscard]] std::string to_bytes() const;
  [[nodiscard]] static Outcome from_bytes(std::string_view bytes);
};

/// Of the exception being handled, of whatever type; call it inside a catch block.
[[nodiscard]] Outcome current_failure();

/// Runs `step`: what it threw, if anything.
[[nodiscard]] Outcome outcome_of(const std::function<void()>& step);

}  // namespace sluice
