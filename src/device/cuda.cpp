#include "base/error.hpp"
#include "base/log.hpp"
#include "device/backend.hpp"

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
