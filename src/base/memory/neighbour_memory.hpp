// Memory of other processes, which MPI libraries read to move large messages in one copy.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace sluice {

/// Whether this process may read another one's memory: there is `expected` at `address` of process `process`. By
/// process_vm_readv() as the C library has it, as Open MPI reads.
[[nodiscard]] bool can_read_number(pid_t process, const std::int64_t* address, std::int64_t expected);

}  // namespace sluice
