// The one place that depends on the version of LibTorch: features that only newer versions have are chosen
// here.
#pragma once

#include <torch/version.h>

#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR < 113
#error "LibTorch 1.13 or newer is needed"
#endif

/// Whether an allocator copies what it allocated and has no const functions: true for 2.6, false for 1.13.
/// Versions between these are not supported.
#define SLUICE_TORCH_ALLOCATORS_COPY (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 203)

/// Whether backward on a device that is registered from outside needs hooks registered by
/// at::RegisterPrivateUse1HooksInterface().
#define SLUICE_TORCH_DEVICE_HOOKS (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 203)

/// Whether LibTorch has the CUDA operations that ops/device/cuda_library.cpp calls: attention of variable
/// lengths with logsumexp by query, grouped products, and products of bfloat16 into float32.
#define SLUICE_TORCH_CUDA_OPERATIONS (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 208)
