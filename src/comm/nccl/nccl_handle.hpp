// An NCCL communicator that never blocks the host beyond a deadline. Compiled only with NCCL.
#pragma once

#include "comm/communicator.hpp"
#include "comm/wait.hpp"
#include "comm/watchdog.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string_view>

namespace sluice {

/// Error(kInternal) with the call's name and the library's text unless it succeeded; ncclInProgress counts as
/// success.
void check_nccl(ncclResult_t result, std::string_view call);
void check_cuda(cudaError_t status, std::string_view call);

/// Owns an ncclComm_t in non-blocking mode. A wait that fails aborts it, so that kernels stuck on the device
/// end too.
class NcclHandle {
 public:
  /// Collective over `bootstrap`. Rank 0's identifier brings the ranks together.
  NcclHandle(Communicator& bootstrap, const WaitLimit& limit);
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  [[nodiscard]] ncclComm_t get() const { return comm_; }
  /// Waits for `work`; on any failure aborts the communicator and throws.
  void wait(Pollable& work, const WaitLimit& limit, const Operation& operation);
  /// Waits until calls made so far have been handed to the device.
  void wait_until_enqueued(const WaitLimit& limit, const Operation& operation);
  /// True once enqueued; throws what NCCL reports meanwhile.
  [[nodiscard]] bool is_enqueued() const;

 private:
  void abort() noexcept;
  Watchdog watchdog_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace sluice
