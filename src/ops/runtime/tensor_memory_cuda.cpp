#include "base/error.hpp"
#include "ops/runtime/tensor_memory.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>

namespace sluice::ops {

void limit_tensor_memory(std::int64_t bytes) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (const cudaError_t status = cudaMemGetInfo(&free_bytes, &total_bytes); status != cudaSuccess)
    fail(ExitCode::kInternal, "cudaMemGetInfo failed: {}", cudaGetErrorString(status));
  const double share = static_cast<double>(bytes) / static_cast<double>(total_bytes);
  c10::cuda::CUDACachingAllocator::setMemoryFraction(std::clamp(share, 0.0, 1.0),
                                                     c10::cuda::current_device());
}

}  // namespace sluice::ops
