#include "base/error.hpp"
#include "base/log.hpp"
#include "device/backend.hpp"
#include "device/devices.hpp"
#include "device/stream.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstring>
#include <string_view>

namespace sluice::device {
namespace {

void check(cudaError_t status, std::string_view call) {
  if (status != cudaSuccess) fail(ExitCode::kInternal, "{} failed: {}", call, cudaGetErrorString(status));
}

/// Index of the GPU that was chosen; -1: none.
std::atomic<int> chosen_gpu = -1;
/// Whether this process has used a GPU. The runtime's calls on a GPU, even those that only ask, take memory
/// of it.
std::atomic<bool> has_entered = false;

/// Makes the chosen GPU current: every thread begins with the first GPU.
void enter() {
  has_entered = true;
  thread_local int current = -1;
  const int chosen = chosen_gpu;
  if (current == chosen) return;
  check(cudaSetDevice(chosen), "cudaSetDevice");
  current = chosen;
}

}  // namespace

std::byte* allocate_zeroed(std::int64_t bytes) {
  enter();
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, static_cast<std::size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    // The runtime also keeps the error; the next call must not report it again.
    cudaGetLastError();
    return nullptr;
  }
  check(status, "cudaMalloc");
  check(cudaMemset(data, 0, static_cast<std::size_t>(bytes)), "cudaMemset");
  synchronize();  // other streams may use the memory at once
  return static_cast<std::byte*>(data);
}

void release(std::byte* data) noexcept {
  if (const cudaError_t status = cudaFree(data); status != cudaSuccess)
    log::warning("cudaFree failed: {}", cudaGetErrorString(status));
}

std::byte* allocate_pinned(std::int64_t bytes) {
  enter();
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(&data, static_cast<std::size_t>(bytes), cudaHostAllocDefault);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(status, "cudaHostAlloc");
  std::memset(data, 0, static_cast<std::size_t>(bytes));
  return static_cast<std::byte*>(data);
}

void release_pinned(std::byte* data) noexcept {
  if (const cudaError_t status = cudaFreeHost(data); status != cudaSuccess)
    log::warning("cudaFreeHost failed: {}", cudaGetErrorString(status));
}

Occupancy occupancy() {
  enter();
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  return {static_cast<std::int64_t>(free_bytes), static_cast<std::int64_t>(total_bytes - free_bytes)};
}

bool owns(const void* address) {
  if (!has_entered) return false;
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, address), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
}

void begin_copy(void* to, const void* from, std::int64_t bytes) {
  enter();
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, nullptr),
        "cudaMemcpyAsync");
}

void synchronize() {
  enter();
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

}  // namespace sluice::device

namespace sluice {

bool has_cuda() { return true; }

Gpus list_gpus() {
  Gpus gpus;
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  for (int index = 0; index < count && status == cudaSuccess; ++index) {
    cudaDeviceProp found{};
    status = cudaGetDeviceProperties(&found, index);
    gpus.list.push_back({found.name,
                         {found.uuid.bytes, sizeof found.uuid.bytes},
                         fmt::format("{}.{}", found.major, found.minor),
                         static_cast<std::int64_t>(found.totalGlobalMem),
                         found.integrated != 0});
  }
  if (status != cudaSuccess) {
    cudaGetLastError();
    gpus = {{}, cudaGetErrorString(status)};
  } else if (count == 0) {
    gpus.lack = cudaGetErrorString(cudaErrorNoDevice);
  }
  return gpus;
}

void use_gpu(int index) {
  if (const cudaError_t status = cudaSetDevice(index); status != cudaSuccess)
    fail(ExitCode::kTooLittle, "GPU {} cannot be used: {}", index, cudaGetErrorString(status));
  device::chosen_gpu = index;
  device::has_entered = true;
}

DeviceStream::DeviceStream() {
  device::enter();
  cudaStream_t stream = nullptr;
  device::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  handle_ = stream;
  cudaEvent_t event = nullptr;
  device::check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  event_ = event;
}

DeviceStream::~DeviceStream() {
  if (const cudaError_t status = cudaEventDestroy(static_cast<cudaEvent_t>(event_)); status != cudaSuccess)
    log::warning("cudaEventDestroy failed: {}", cudaGetErrorString(status));
  if (const cudaError_t status = cudaStreamDestroy(static_cast<cudaStream_t>(handle_)); status != cudaSuccess)
    log::warning("cudaStreamDestroy failed: {}", cudaGetErrorString(status));
}

void DeviceStream::follow_compute() {
  const auto event = static_cast<cudaEvent_t>(event_);
  device::check(cudaEventRecord(event, static_cast<cudaStream_t>(kComputeStream)), "cudaEventRecord");
  device::check(cudaStreamWaitEvent(static_cast<cudaStream_t>(handle_), event, 0), "cudaStreamWaitEvent");
}

void DeviceStream::copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  device::check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault,
                                static_cast<cudaStream_t>(handle_)),
                "cudaMemcpyAsync");
}

bool DeviceStream::is_idle() const {
  const cudaError_t status = cudaStreamQuery(static_cast<cudaStream_t>(handle_));
  if (status != cudaErrorNotReady) device::check(status, "cudaStreamQuery");
  return status == cudaSuccess;
}

std::string cuda_version_text() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) return "CUDA";
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace sluice
