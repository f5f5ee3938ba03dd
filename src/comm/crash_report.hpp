// What a rank says that is ended by a fault of its own: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT.
#pragma once

#include "comm/node_flags.hpp"

namespace sluice {

/// From here on a crash prints one block to stderr, with the rank, its position and its stack, and then ends the process as
/// it would have. Leaves signals that somebody else handles alone. Before MPI starts, which has handlers of its own.
void install_crash_report();

/// Who this rank is, and where the others of its machine learn of a crash: null, or flags that stay until the next call.
void set_crash_rank(int rank, int size, NodeFlags* flags);

}  // namespace sluice
