// Launch of a kernel on a GPU: one call for each index, on the compute stream. For CUDA's compiler.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

namespace sluice::ops::device {

/// Throws an error that names `reason`. (CUDA's compiler cannot compile fmt, which base/error.hpp includes.)
[[noreturn]] void fail_launch(const char* reason);

/// Returns the first number of the GPU's compute capability.
inline int compute_capability() {
  int device = 0, major = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess)
    status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (status != cudaSuccess) fail_launch(cudaGetErrorString(status));
  return major;
}

inline constexpr std::int64_t kMostBlocks = 1 << 20;

inline void check_launch() {
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    fail_launch(cudaGetErrorString(status));
}

template <class Kernel>
__global__ void run_kernel(std::int64_t n, Kernel kernel) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    kernel(i);
}

template <class Kernel>
void launch(std::int64_t n, const Kernel& kernel) {
  constexpr std::int64_t kThreads = 128;
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>(std::min(kMostBlocks, (n + kThreads - 1) / kThreads));
  run_kernel<<<blocks, static_cast<unsigned>(kThreads)>>>(n, kernel);
  check_launch();
}

/// Returns the largest of a thread block's numbers, none of them negative, to each of its threads. `of_warps`
/// is the block's shared memory.
template <int kThreads>
__device__ std::int32_t block_maximum(std::int32_t own, std::int32_t* of_warps) {
  constexpr int kWarp = 32, kWarps = kThreads / kWarp;
  static_assert(kThreads % kWarp == 0);
  const auto of_warp = static_cast<std::int32_t>(__reduce_max_sync(~0U, static_cast<unsigned>(own)));
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = of_warp;
  __syncthreads();
  std::int32_t largest = 0;
  for (int warp = 0; warp < kWarps; ++warp) largest = std::max(largest, of_warps[warp]);
  return largest;
}

template <int kThreads, class Kernel>
__global__ void __launch_bounds__(kThreads) run_together(std::int64_t blocks, Kernel kernel) {
  __shared__ std::int32_t first_of_warps[kThreads / 32], second_of_warps[kThreads / 32];
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    typename Kernel::Part part(kernel, block * kThreads + threadIdx.x);
    const std::int32_t first = block_maximum<kThreads>(part.first_magnitude(), first_of_warps);
    const std::int32_t second = block_maximum<kThreads>(part.second_magnitude(), second_of_warps);
    if (threadIdx.x == 0) part.set_scales(first, second);
    __syncthreads();  // The scales are set, and the warps' maxima may be overwritten.
    part.save();
  }
}

/// Launches a kernel on blocks of kThreads indices each, whose Parts find scales together: one GPU thread for
/// each index, one thread block for each block.
template <std::int64_t kThreads, class Kernel>
void launch_together(std::int64_t blocks, const Kernel& kernel) {
  if (blocks == 0) return;
  run_together<static_cast<int>(kThreads)>
      <<<static_cast<unsigned>(std::min(kMostBlocks, blocks)), static_cast<unsigned>(kThreads)>>>(blocks,
                                                                                                  kernel);
  check_launch();
}

}  // namespace sluice::ops::device
