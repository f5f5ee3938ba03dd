// Work of rank 0 that may take longer than the others' deadline.
#pragma once

#include "comm/communicator.hpp"

#include <functional>

namespace sluice {

/// Collective over `comm`. Calls `step` on rank 0; `step` does not communicate but by `tell`, which it calls
/// more often than the deadline, so that each wait of the others is for the next call. If it throws, every
/// rank throws that error.
void run_long_on_root(Communicator& comm, const std::function<void(const std::function<void()>& tell)>& step);

}  // namespace sluice
