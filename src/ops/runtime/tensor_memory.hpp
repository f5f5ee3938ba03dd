// What LibTorch may take of a GPU's memory for tensors. CMake chooses tensor_memory_cuda.cpp or no_tensor_memory.cpp.
#pragma once

#include <cstdint>

namespace sluice::ops {

/// From here on LibTorch keeps at most `bytes` of the current GPU for tensors, those in use and those that it holds on to for
/// later ones; an operation that needs more fails, as Error(kTooLittle) after with_plain_errors(). Call it after start_library().
/// Without CUDA in the build: nothing.
void limit_tensor_memory(std::int64_t bytes);

}  // namespace sluice::ops
