// Steps that succeed on every rank or fail on every rank.
#pragma once

#include "comm/communicator.hpp"

#include <functional>
#include <string>

namespace sluice {

/// Collective over `comm`; waits for the slowest. Calls `step`, which does not communicate, on every rank. If
/// it throws anywhere, every rank throws the error of the lowest such rank, so that all can clean up.
void run_together(Communicator& comm, const std::function<void()>& step);

/// Collective over `comm`. Calls `step`, which does not communicate, on rank 0. If it throws there, every rank
/// throws that error.
void run_on_root(Communicator& comm, const std::function<void()>& step);

/// The same; every rank gets the bytes that `step` made on rank 0.
[[nodiscard]] std::string share_from_root(Communicator& comm, const std::function<std::string()>& step);

}  // namespace sluice
