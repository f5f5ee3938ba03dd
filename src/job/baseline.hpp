// The memory a process takes before it does anything for a model: code, MPI, LibTorch's threads and buffers.
#pragma once

#include "base/memory.hpp"
#include "comm/communicator.hpp"

namespace sluice {

/// Collective over `comm`. Runs one matrix product of each training type and one collective, so that
/// libraries have allocated what they keep, and takes the sample that growth is counted from.
[[nodiscard]] MemorySample take_baseline(Communicator& comm);

}  // namespace sluice
