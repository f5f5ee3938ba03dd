// Trial of whether processes on this machine may read each other's memory.
#pragma once

namespace sluice {

/// Tries can_read_number() (base/memory/neighbour_memory.hpp) between two processes that it starts, neither of
/// which has started the other: kernels and containers allow a parent more than a neighbour. The process that is
/// read allows it as far as it can, as Open MPI's ranks do. True if the system gives no processes. Only the
/// calling thread exists in them.
[[nodiscard]] bool can_read_neighbours();

}  // namespace sluice
