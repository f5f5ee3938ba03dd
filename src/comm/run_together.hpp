// Steps that succeed on every rank or fail on every rank.
#pragma once

#include "base/error.hpp"
#include "comm/communicator.hpp"

#include <functional>
#include <string>

namespace sluice {

/// A failure that every rank of a communicator throws at the same place, so that no rank waits for one that
/// has failed.
class SharedError : public Error {
 public:
  /// `text` is the failing rank's message; what() also names that rank if it is not `this_rank`.
  SharedError(const Cause& cause, const std::string& text, int failing_rank, int this_rank);
  /// The message of the failing rank.
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] int failing_rank() const { return failing_rank_; }

 private:
  std::string text_;
  int failing_rank_;
};

/// Collective over `comm`; waits for the slowest rank. Calls `step`, which does not communicate, on every
/// rank. If it throws on any rank, every rank throws the error of the lowest such rank as a SharedError, so
/// that all can clean up.
void run_together(Communicator& comm, const std::function<void()>& step);

/// Collective over `comm`. Calls `step`, which does not communicate, on rank 0. If it throws, every rank
/// throws its error as a SharedError.
void run_on_root(Communicator& comm, const std::function<void()>& step);

/// Collective over `comm`. Runs `step` on rank 0 and gives the bytes that it returns to every rank; throws on
/// all ranks if it throws.
[[nodiscard]] std::string share_from_root(Communicator& comm, const std::function<std::string()>& step);

}  // namespace sluice
