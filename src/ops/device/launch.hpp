// How a kernel runs on a GPU: once for each index, on the compute stream. For CUDA's compiler.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

namespace sluice::ops::device {

/// Throws. (CUDA's compiler does not get along with fmt, which base/error.hpp brings.)
[[noreturn]] void fail_launch(const char* reason);

template <class Kernel>
__global__ void run_kernel(std::int64_t n, Kernel kernel) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    kernel(i);
}

template <class Kernel>
void launch(std::int64_t n, const Kernel& kernel) {
  constexpr std::int64_t kThreads = 128, kMostBlocks = 1 << 20;
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>(std::min(kMostBlocks, (n + kThreads - 1) / kThreads));
  run_kernel<<<blocks, static_cast<unsigned>(kThreads)>>>(n, kernel);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    fail_launch(cudaGetErrorString(status));
}

}  // namespace sluice::ops::device
