#include "comm/nccl/nccl_handle.hpp"

#include "base/error.hpp"
#include "base/log.hpp"

#include <cstring>
#include <exception>
#include <string>

namespace sluice {
namespace {

constexpr double kAbortSeconds = 15;

class Enqueued final : public Pollable {
 public:
  explicit Enqueued(const NcclHandle& handle) : handle_(handle) {}
  bool test() override { return handle_.is_enqueued(); }
  [[nodiscard]] std::string missing() const override { return "NCCL to connect the ranks"; }

 private:
  const NcclHandle& handle_;
};

ncclUniqueId agree_on_identifier(Communicator& bootstrap) {
  ncclUniqueId identifier{};
  if (bootstrap.rank() == 0) check_nccl(ncclGetUniqueId(&identifier), "ncclGetUniqueId");
  const std::string text = bootstrap.broadcast_text({identifier.internal, sizeof identifier.internal}, 0);
  SLUICE_ASSERT(text.size() == sizeof identifier.internal, "an NCCL identifier of {} bytes", text.size());
  std::memcpy(identifier.internal, text.data(), text.size());
  return identifier;
}

}  // namespace

void check_nccl(ncclResult_t result, std::string_view call) {
  if (result != ncclSuccess && result != ncclInProgress)
    fail(ExitCode::kInternal, "{} failed: {} ({})", call, ncclGetErrorString(result),
         ncclGetLastError(nullptr));
}

void check_cuda(cudaError_t status, std::string_view call) {
  if (status != cudaSuccess) fail(ExitCode::kInternal, "{} failed: {}", call, cudaGetErrorString(status));
}

NcclHandle::NcclHandle(Communicator& bootstrap, const WaitLimit& limit) {
  watchdog_.set_rank(bootstrap.rank());
  const ncclUniqueId identifier = agree_on_identifier(bootstrap);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  check_nccl(ncclCommInitRankConfig(&comm_, bootstrap.size(), identifier, bootstrap.rank(), &config),
             "ncclCommInitRankConfig");
  wait_until_enqueued(limit, {"nccl_init", 1, bootstrap.rank()});
}

NcclHandle::~NcclHandle() {
  if (comm_ == nullptr) return;
  if (std::uncaught_exceptions() > 0) {
    abort();
    return;
  }
  const Watchdog::Guard guard(watchdog_, "ncclCommDestroy", kAbortSeconds);
  if (const ncclResult_t result = ncclCommDestroy(comm_); result != ncclSuccess && result != ncclInProgress)
    log::warning("ncclCommDestroy failed: {}", ncclGetErrorString(result));
}

void NcclHandle::abort() noexcept {
  if (comm_ == nullptr) return;
  const Watchdog::Guard guard(watchdog_, "ncclCommAbort", kAbortSeconds);
  if (const ncclResult_t result = ncclCommAbort(comm_); result != ncclSuccess)
    log::warning("ncclCommAbort failed: {}", ncclGetErrorString(result));
  comm_ = nullptr;
}

bool NcclHandle::is_enqueued() const {
  SLUICE_ASSERT(comm_ != nullptr, "the NCCL communicator was aborted before");
  ncclResult_t state = ncclSuccess;
  check_nccl(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
  check_nccl(state, "an NCCL operation");
  return state == ncclSuccess;
}

void NcclHandle::wait(Pollable& work, const WaitLimit& limit, const Operation& operation) {
  try {
    wait_for(work, limit, operation);
  } catch (...) {
    abort();
    throw;
  }
}

void NcclHandle::wait_until_enqueued(const WaitLimit& limit, const Operation& operation) {
  Enqueued enqueued(*this);
  wait(enqueued, limit, operation);
}

}  // namespace sluice
