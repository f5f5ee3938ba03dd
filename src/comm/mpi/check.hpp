// MPI's return codes as errors.
#pragma once

#include <string_view>

namespace sluice {

/// Error(kInternal) with the call's name and MPI's own text unless `code` is MPI_SUCCESS. Every communicator
/// of ours returns its errors (MPI_ERRORS_RETURN).
void check_mpi(int code, std::string_view call);

/// The same for destructors: logs instead of throwing.
void log_mpi(int code, std::string_view call) noexcept;

}  // namespace sluice
