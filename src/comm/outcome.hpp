// Outcome of a step on one rank, in the form in which other ranks, the user and the exit code learn of it.
#pragma once

#include "base/error.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace sluice {

/// Cause and text of a failure, or success with kDone.
struct Outcome : Cause {
  std::string text{};  ///< text of the failure for the user

  [[nodiscard]] bool failed() const { return code != ExitCode::kDone; }

  /// The text for the user, with the id of a failure at the end of its first line.
  [[nodiscard]] std::string text_with_id() const { return failed() ? with_id(text, id) : text; }

  /// Throws the Error with this cause and text if something failed.
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
