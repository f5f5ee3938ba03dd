// Limit on the GPU memory that LibTorch takes for tensors. CMake chooses tensor_memory_cuda.cpp or
// no_tensor_memory.cpp.
#pragma once

#include <cstdint>

namespace sluice::ops {

/// Limits the bytes of the current GPU that LibTorch holds for tensors, in use or cached. An operation that
/// needs more fails; with_plain_errors() makes Error(kTooLittle) of it. Called after start_library(). Does
/// nothing in a build without CUDA.
void limit_tensor_memory(std::int64_t bytes);

}  // namespace sluice::ops
