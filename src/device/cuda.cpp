#include "base/error.hpp"
#include "base/log.hpp"
#include "device/backend.hpp"
#include "device/devices.hpp"
#include "device/stream.hpp"

#include <cuda_runtime_api.h>

#include <string_view>

namespace sluice::device {
namespace {

void check(cudaError_t status, std::string_view call) {
  if (status != cudaSuccess) fail(ExitCode::kInternal, "{} failed: {}", call, cudaGetErrorString(status));
}

}  // namespace

std::byte* allocate_zeroed(std::int64_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, static_cast<std::size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    // The runtime also keeps the error; the next call must not report it again.
    cudaGetLastError();
    return nullptr;
  }
  check(status, "cudaMalloc");
  check(cudaMemset(data, 0, static_cast<std::size_t>(bytes)), "cudaMemset");
  return static_cast<std::byte*>(data);
}

void release(std::byte* data) noexcept {
  if (const cudaError_t status = cudaFree(data); status != cudaSuccess)
    log::warning("cudaFree failed: {}", cudaGetErrorString(status));
}

std::int64_t available_bytes() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free_bytes);
}

bool owns(const void* address) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, address), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
}

void begin_copy(void* to, const void* from, std::int64_t bytes) {
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, nullptr),
        "cudaMemcpyAsync");
}

void synchronize() { check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize"); }

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
}

DeviceStream::DeviceStream() {
  cudaStream_t stream = nullptr;
  device::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  handle_ = stream;
}

DeviceStream::~DeviceStream() {
  if (const cudaError_t status = cudaStreamDestroy(static_cast<cudaStream_t>(handle_)); status != cudaSuccess)
    log::warning("cudaStreamDestroy failed: {}", cudaGetErrorString(status));
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
