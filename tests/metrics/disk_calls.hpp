// A disk that does what the test wants: what changes a file comes to the two functions that the test defines.
// For one source file of a program: its definitions come before the C library's, for HDF5 too.
#pragma once

#include "support/sanitizer.hpp"

#include <unistd.h>
#include <cstddef>

namespace sluice::test {

/// As pwrite(2) and ftruncate(2); the system's own are SYS_pwrite64 and SYS_ftruncate.
ssize_t write_to_disk(int file, const void* data, std::size_t bytes, off_t offset);
int truncate_on_disk(int file, off_t bytes);

/// From one change of a file at which the disk does something to the next. Every change has its turn, but not
/// under a sanitizer, where each takes three times as long.
#ifdef SLUICE_ADDRESS_SANITIZER
constexpr int kStride = 3;
#else
constexpr int kStride = 1;
#endif

}  // namespace sluice::test

extern "C" {
ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) {
  return sluice::test::write_to_disk(file, data, bytes, offset);
}
ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t offset) {
  return sluice::test::write_to_disk(file, data, bytes, offset);
}
int ftruncate(int file, off_t bytes) noexcept { return sluice::test::truncate_on_disk(file, bytes); }
int ftruncate64(int file, off64_t bytes) noexcept { return sluice::test::truncate_on_disk(file, bytes); }
}
