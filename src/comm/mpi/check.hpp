// Turns MPI's return codes into errors.
#pragma once

#include <string_view>

namespace sluice {

/// Error(kInternal) with the call's name and MPI's own text unless `code` is MPI_SUCCESS. Every communicator
/// of ours returns its errors (MPI_ERRORS_RETURN).
void check_mpi(int code, std::string_view call);

/// Error(kInternal) if another thread than the one of the first MPI call is about to make a call: MPI is
/// FUNNELED. check_mpi() finds the same afterwards.
void require_mpi_thread(std::string_view call);

/// check_mpi() for destructors: logs instead of throwing.
void log_mpi(int code, std::string_view call) noexcept;

}  // namespace sluice
