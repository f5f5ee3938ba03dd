// Report of a rank that crashes with SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT.
#pragma once

#include "comm/failure/node_flags.hpp"

namespace sluice {

/// Makes a crash print one block to stderr, with the rank, its position and its stack, and then end the
/// process as without a report. Leaves signals alone that have a handler of their own. Must be called before
/// MPI starts, which installs handlers too.
void install_crash_report();

/// Sets this process's rank, and the flags by which the other ranks of its machine learn of a crash: null, or
/// flags that stay valid until the next call.
void set_crash_rank(int rank, int size, NodeFlags* flags);

}  // namespace sluice
