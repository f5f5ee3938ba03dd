// MPI's return codes as errors.
#pragma once

#include <string_view>

namespace sluice {

/// Error(kInternal) with the call's name and MPI's own text unless `code` is MPI_SUCCESS. Every communicator
/// of ours returns its errors (MPI_ERRORS_RETURN).
void check_mpi(int code, std::string_view call);

/// Error(kInternal) on another thread than that of the first MPI call: MPI is FUNNELED. Of a call that is
/// about to be made; check_mpi() says so afterwards.
void require_mpi_thread(std::string_view call);

/// check_mpi() for destructors: logs instead of throwing.
void log_mpi(int code, std::string_view call) noexcept;

}  // namespace sluice
