// An ncclComm_t that never blocks the host beyond a deadline. Compiled only with NCCL.
#pragma once

#include "comm/communicator.hpp"
#include "comm/wait.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <functional>
#include <string>
#include <string_view>

namespace sluice {

/// Error(kInternal) with the call's name and the library's text unless it succeeded; ncclInProgress counts as
/// success.
void check_nccl(ncclResult_t result, std::string_view call);
void check_cuda(cudaError_t status, std::string_view call);

/// Owns an ncclComm_t in non-blocking mode. A wait that fails aborts it, so that kernels stuck on the device
/// end too. NCCL promises that its calls return at once; one that does not ends the process when the limit
/// passes (Watchdog::guard), and the message names the operation.
class NcclHandle {
 public:
  /// Collective over `bootstrap`. Rank 0's identifier brings the ranks together.
  NcclHandle(Communicator& bootstrap, const WaitLimit& limit);
  /// Waits until the device has finished with the communicator; while an exception unwinds, aborts it
  /// instead.
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  [[nodiscard]] ncclComm_t get() const { return comm_; }
  /// Runs `calls` as one NCCL group and waits until the group was handed to the device; on any failure aborts
  /// the communicator and throws.
  void launch(const std::function<void()>& calls, const WaitLimit& limit, const Operation& operation);
  /// Waits for `work`; on any failure aborts the communicator and throws.
  void wait(Pollable& work, const WaitLimit& limit, const Operation& operation);
  /// Whether all calls so far have been handed to the device; throws errors that NCCL reports meanwhile.
  [[nodiscard]] bool is_enqueued() const;

 private:
  void abort(const WaitLimit& limit, const std::string& cause) noexcept;
  void finish() noexcept;
  double limit_seconds_;  ///< time limit of the last group of calls
  ncclComm_t comm_ = nullptr;
};

}  // namespace sluice
