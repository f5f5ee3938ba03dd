#include "comm/nccl/nccl_handle.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "comm/failure/watchdog.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

namespace sluice {
namespace {

constexpr double kAbortSeconds = 15;

std::string text_of(const Operation& operation) {
  return fmt::format("{} #{}", operation.name, operation.sequence);
}

class Enqueued final : public Pollable {
 public:
  explicit Enqueued(const NcclHandle& handle) : handle_(handle) {}
  bool test() override { return handle_.is_enqueued(); }
  [[nodiscard]] std::string missing() const override { return "NCCL to connect the ranks"; }

 private:
  const NcclHandle& handle_;
};

ncclUniqueId agree_on_identifier(Communicator& bootstrap, const WaitLimit& limit) {
  ncclUniqueId identifier{};
  if (bootstrap.rank() == 0) {
    const auto guard = Watchdog::guard("ncclGetUniqueId", limit.seconds);
    check_nccl(ncclGetUniqueId(&identifier), "ncclGetUniqueId");
  }
  const std::string text = bootstrap.broadcast_text({identifier.internal, sizeof identifier.internal}, 0);
  SLUICE_ASSERT(text.size() == sizeof identifier.internal,
                "the NCCL identifier of rank 0 has {} bytes, which is not its size", text.size());
  std::memcpy(identifier.internal, text.data(), text.size());
  return identifier;
}

}  // namespace

void check_nccl(ncclResult_t result, std::string_view call) {
  if (result != ncclSuccess && result != ncclInProgress)
    fail({ExitCode::kInternal, "comm.failed_call"}, "{} failed: {} ({})", call, ncclGetErrorString(result),
         ncclGetLastError(nullptr));
}

void check_cuda(cudaError_t status, std::string_view call) {
  if (status != cudaSuccess)
    fail({ExitCode::kInternal, "comm.failed_call"}, "{} failed: {}", call, cudaGetErrorString(status));
}

NcclHandle::NcclHandle(Communicator& bootstrap, const WaitLimit& limit) : limit_seconds_(limit.seconds) {
  const ncclUniqueId identifier = agree_on_identifier(bootstrap, limit);
  const Operation operation{"nccl_init", 1, bootstrap.rank()};
  {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const auto guard = Watchdog::guard("ncclCommInitRankConfig", limit.seconds);
    check_nccl(ncclCommInitRankConfig(&comm_, bootstrap.size(), identifier, bootstrap.rank(), &config),
               "ncclCommInitRankConfig");
  }
  Enqueued connected(*this);
  wait(connected, limit, operation);
}

NcclHandle::~NcclHandle() {
  if (comm_ == nullptr) return;
  if (std::uncaught_exceptions() > 0)
    abort({"finish", limit_seconds_}, "an error");
  else
    finish();
}

/// A communicator must be finalized and found done before it may be destroyed.
void NcclHandle::finish() noexcept {
  const WaitLimit limit{"finish", std::min(limit_seconds_, kAbortSeconds)};
  try {
    const auto guard = Watchdog::guard("ncclCommFinalize", 2 * limit.seconds);
    check_nccl(ncclCommFinalize(comm_), "ncclCommFinalize");
    Enqueued done(*this);
    wait_for(done, limit, {"nccl_finalize", 1, 0});
    check_nccl(ncclCommDestroy(comm_), "ncclCommDestroy");
    comm_ = nullptr;
  } catch (const std::exception& error) {
    log::warning("{}", error.what());
    abort(limit, "ncclCommFinalize");
  }
}

void NcclHandle::abort(const WaitLimit& limit, const std::string& cause) noexcept {
  if (comm_ == nullptr) return;
  try {
    const auto guard = Watchdog::guard(fmt::format("ncclCommAbort (after {})", cause),
                                       std::min(limit.seconds, kAbortSeconds));
    if (const ncclResult_t result = ncclCommAbort(comm_); result != ncclSuccess && result != ncclInProgress)
      log::warning("ncclCommAbort failed: {}", ncclGetErrorString(result));
  } catch (const std::exception& error) {
    log::warning("ncclCommAbort: {}", error.what());
  }
  comm_ = nullptr;
}

bool NcclHandle::is_enqueued() const {
  SLUICE_ASSERT(comm_ != nullptr, "the NCCL communicator was aborted before");
  ncclResult_t state = ncclSuccess;
  check_nccl(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
  if (state == ncclInProgress) return false;
  check_nccl(state, "NCCL");
  return true;
}

void NcclHandle::launch(const std::function<void()>& calls, const WaitLimit& limit,
                        const Operation& operation) {
  SLUICE_ASSERT(comm_ != nullptr, "the NCCL communicator was aborted before {}", text_of(operation));
  limit_seconds_ = limit.seconds;
  try {
    const auto guard = Watchdog::guard(text_of(operation) + ", handed to NCCL,", limit.seconds);
    check_nccl(ncclGroupStart(), "ncclGroupStart");
    calls();
    check_nccl(ncclGroupEnd(), "ncclGroupEnd");
  } catch (const Error& error) {
    abort(limit, fmt::format("{} on rank {}: {}", text_of(operation), operation.rank, error.what()));
    fail(error.cause(), "{}: {} on rank {}: {}", limit.section, text_of(operation), operation.rank,
         error.what());
  }
  Enqueued enqueued(*this);
  wait(enqueued, limit, operation);
}

void NcclHandle::wait(Pollable& work, const WaitLimit& limit, const Operation& operation) {
  try {
    wait_for(work, limit, operation);
  } catch (const Error& error) {
    std::string text = error.what();
    if (text.find(text_of(operation)) == std::string::npos)
      text = fmt::format("{}: {} on rank {}: {}", limit.section, text_of(operation), operation.rank, text);
    abort(limit, text);
    fail(error.cause(), "{}", text);
  }
}

}  // namespace sluice
