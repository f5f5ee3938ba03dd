// The memory a process takes before it does anything for a model: code, MPI, and what libraries keep.
#pragma once

#include "base/memory.hpp"
#include "comm/communicator.hpp"

namespace sluice {

/// Collective over `comm`. Runs one collective, so that MPI has allocated its buffers, and takes the sample
/// that growth is counted from. Libraries that a job computes with have started before (Job::start).
[[nodiscard]] MemorySample take_baseline(Communicator& comm);

}  // namespace sluice
