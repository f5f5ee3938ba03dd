// Limits that a shell, or whatever started the process, sets on it (ulimit, prlimit).
#pragma once

#include "config/job_config.hpp"

#include <cstdint>
#include <limits>

namespace sluice {

/// Error(kTooLittle) if this process may open fewer files than MPI and the job need, with the soft limit
/// raised to the hard one.
void require_descriptors();

/// Limits on a process's address space and data in bytes; the largest number without a limit.
struct ProcessLimits {
  std::int64_t address_space_bytes = std::numeric_limits<std::int64_t>::max();
  std::int64_t data_bytes = std::numeric_limits<std::int64_t>::max();
};
[[nodiscard]] ProcessLimits process_limits();

/// Error(kTooLittle) if the limits are too small for the libraries that compute, on `threads` threads: some
/// libraries try for ever to get their first memory, so this must be known before they are loaded.
void require_room_for_libraries(const ProcessLimits& limits, int threads);

/// Bytes that the limits leave to this process.
[[nodiscard]] std::int64_t left_of_limits(const ProcessLimits& limits);

}  // namespace sluice
