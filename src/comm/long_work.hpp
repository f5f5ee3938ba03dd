// Work of rank 0 that may take longer than the other ranks' deadline.
#pragma once

#include "comm/communicator.hpp"

#include <functional>

namespace sluice {

/// Collective over `comm`. Calls `step` on rank 0. `step` communicates only through `tell`, which it must
/// call more often than the deadline, since each wait of the other ranks is for the next call. If it throws,
/// every rank throws the same error.
void run_long_on_root(Communicator& comm, const std::function<void(const std::function<void()>& tell)>& step);

}  // namespace sluice
