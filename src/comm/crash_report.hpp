// Report of a rank that crashes: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT.
#pragma once

#include "comm/node_flags.hpp"

namespace sluice {

/// Makes a crash print one block to stderr, with the rank, its position and its stack, and then end the
/// process as it would have without. Leaves signals with a handler of their own alone. Call it before MPI
/// starts, which installs handlers, too.
void install_crash_report();

/// Who this rank is, and where the others of its machine learn of a crash: null, or flags that stay until the
/// next call.
void set_crash_rank(int rank, int size, NodeFlags* flags);

}  // namespace sluice
