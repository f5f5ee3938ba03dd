// The memory a process takes before it does anything for a model: code, MPI, and what libraries keep.
#pragma once

#include "base/memory.hpp"
#include "comm/communicator.hpp"

namespace sluice {

/// Collective over `comm`. Runs one collective, so that MPI has allocated what it keeps, and takes the sample
/// that growth is counted from. What a job computes with was started before (Job::start).
[[nodiscard]] MemorySample take_baseline(Communicator& comm);

}  // namespace sluice
