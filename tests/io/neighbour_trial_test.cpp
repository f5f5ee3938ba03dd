#include "io/neighbour_trial.hpp"

#include "base/memory/neighbour_memory.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace {

bool is_forbidden = false;

}  // namespace

/// The C library's call for this program: the kernel's, or one that a container forbids.
extern "C" ssize_t process_vm_readv(pid_t process, const iovec* here, unsigned long here_count,
                                    const iovec* there, unsigned long there_count,
                                    unsigned long flags) noexcept {
  if (!is_forbidden)
    return ::syscall(SYS_process_vm_readv, process, here, here_count, there, there_count, flags);
  errno = EPERM;
  return -1;
}

namespace sluice {
namespace {

TEST(NeighbourTrial, fails_where_processes_may_not_read_each_other) {
  is_forbidden = true;
  EXPECT_FALSE(can_read_neighbours());
  is_forbidden = false;
}

TEST(NeighbourTrial, agrees_with_the_kernel) {
  const std::int64_t number = 7;
  EXPECT_TRUE(can_read_number(getpid(), &number, 7)) << "its own memory";
  EXPECT_FALSE(can_read_number(getpid(), &number, 8));
  EXPECT_FALSE(can_read_number(getpid(), nullptr, 0));
  static_cast<void>(can_read_neighbours());  // ends, whatever this machine allows
}

}  // namespace
}  // namespace sluice
