// The one place that knows which LibTorch this is compiled against. What only newer versions have is chosen
// here.
#pragma once

#include <torch/version.h>

#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR < 113
#error "LibTorch 1.13 or newer is needed"
#endif

/// An allocator copies what it allocated, and is no constant to its callers: in 2.6, not in 1.13. No version
/// between these is in use.
#define SLUICE_TORCH_ALLOCATORS_COPY (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 203)

/// A backward on a device that is registered from outside asks what is registered for it by
/// at::RegisterPrivateUse1HooksInterface().
#define SLUICE_TORCH_DEVICE_HOOKS (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 203)

/// Whether LibTorch has the operations for CUDA tensors that ops/device/cuda_library.cpp calls: attention of
/// variable lengths whose sums are laid out by query, grouped products, products of bfloat16 into float32.
#define SLUICE_TORCH_CUDA_OPERATIONS (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 208)
