// Steps that succeed on every rank or fail on every rank.
#pragma once

#include "comm/communicator.hpp"

#include <functional>

namespace sluice {

/// Collective over `comm`; waits for the slowest. Calls `step`, which does not communicate, on every rank. If
/// it throws anywhere, every rank throws the error of the lowest such rank, so that all can clean up.
void run_together(Communicator& comm, const std::function<void()>& step);

}  // namespace sluice
