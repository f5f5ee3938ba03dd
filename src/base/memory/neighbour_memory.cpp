#include "base/memory/neighbour_memory.hpp"

#include <sys/uio.h>

namespace sluice {

bool can_read_number(pid_t process, const std::int64_t* address, std::int64_t expected) {
  std::int64_t found = 0;
  const iovec here{&found, sizeof found};
  // The call's own type has no const, though it only reads there.
  const iovec there{const_cast<std::int64_t*>(address), sizeof found};
  return ::process_vm_readv(process, &here, 1, &there, 1, 0) == sizeof found && found == expected;
}

}  // namespace sluice
