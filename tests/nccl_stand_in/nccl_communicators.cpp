// The stand-in for NCCL: communicators, all of them non-blocking ones, over memory that the ranks of one
// machine share. What it does wrong on demand is in faults.hpp.
#include "communicator.hpp"
#include "faults.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>

using sluice::stand_in::asks_for;
using sluice::stand_in::Channels;
using sluice::stand_in::hang;
using sluice::stand_in::nap;

void sluice::stand_in::nap() { std::this_thread::sleep_for(std::chrono::microseconds(100)); }

void ncclComm::connect() {
  if (asks_for("init-error", rank)) {
    error = ncclSystemError;
    return;
  }
  if (asks_for("init-hang", rank)) {
    while (!is_aborted) nap();
    return;
  }
  try {
    channels = std::make_unique<Channels>(name, size);
  } catch (const std::exception&) {
    error = ncclSystemError;
    return;
  }
  channels->arrive();
  while (!channels->all_have_come()) {
    if (is_aborted) return;
    nap();
  }
  if (rank == 0) channels->unlink();
  is_ready = true;
}

ncclResult_t ncclComm::state() const {
  if (error != ncclSuccess) return error;
  if (!is_ready || (is_finalized && (waiting > 0 || hangs_at_the_end))) return ncclInProgress;
  return ncclSuccess;
}

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* identifier) {
  if (asks_for("identifier-hang", -1)) hang();
  static std::atomic<int> count = 0;
  std::memset(identifier, 0, sizeof *identifier);
  std::snprintf(identifier->internal, sizeof identifier->internal, "/nccl-stand-in-%d-%d-%lld", getpid(),
                ++count, static_cast<long long>(std::chrono::steady_clock::now().time_since_epoch().count()));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId identifier, int rank,
                                    ncclConfig_t* config) {
  if (config == nullptr || config->blocking != 0 || rank < 0 || rank >= size) return ncclInvalidArgument;
  if (asks_for("init-block", rank)) hang();
  *comm = new ncclComm(identifier.internal, size, rank);
  (*comm)->connecting = std::thread([made = *comm] { made->connect(); });
  return ncclInProgress;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  comm->hangs_at_the_end = asks_for("finalize-hang", comm->rank);
  comm->is_finalized = true;
  return comm->state();
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->state() != ncclSuccess || comm->waiting > 0) return ncclInvalidUsage;
  comm->connecting.join();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (asks_for("abort-hang", comm->rank)) hang();
  comm->is_aborted = true;
  comm->connecting.join();
  while (comm->waiting > 0) nap();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->state();
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "internal error";
  }
}

const char* ncclGetLastError(ncclComm_t) { return "the stand-in was asked for it"; }

}  // extern "C"
