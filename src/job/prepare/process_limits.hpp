// Limits that the shell, or whoever started the process, sets on it (ulimit, prlimit).
#pragma once

#include "config/job_config.hpp"

#include <cstdint>
#include <limits>

namespace sluice {

/// Error(kTooLittle) if this process may open fewer files than MPI and the job need, though the soft limit
/// was raised to the hard one.
void require_descriptors();

/// Limits on a process's address space and data; the largest number without a limit.
struct ProcessLimits {
  std::int64_t address_space_bytes = std::numeric_limits<std::int64_t>::max();
  std::int64_t data_bytes = std::numeric_limits<std::int64_t>::max();
};
[[nodiscard]] ProcessLimits process_limits();

/// Error(kTooLittle) if they are too small for the libraries that compute, on that many threads: some of
/// those try for ever to get the memory that they start with, so that it must be known before they are
/// loaded.
void require_room_for_libraries(const ProcessLimits& limits, int threads);

/// Bytes that these limits leave to this process.
[[nodiscard]] std::int64_t left_of_limits(const ProcessLimits& limits);

}  // namespace sluice
