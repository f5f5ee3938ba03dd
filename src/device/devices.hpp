// The GPUs that this process sees.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// One GPU as its driver describes it.
struct Gpu {
  std::string name;        ///< name of the GPU, "NVIDIA H100 80GB HBM3"
  std::string identity;    ///< bytes, not text, that are unique among the GPUs of all machines
  std::string capability;  ///< compute capability: "9.0"
  std::int64_t memory_bytes = 0;
  bool is_integrated = false;  ///< whether the GPU shares the CPU's memory
};

/// GPUs in the order in which use_gpu() counts them.
struct Gpus {
  std::vector<Gpu> list;
  std::string lack;  ///< reason for an empty list: "no CUDA-capable device is detected"
};

/// Whether the build has CUDA.
[[nodiscard]] bool has_cuda();

/// Lists GPUs without allocating anything on them; empty in a build without CUDA, without a driver or without
/// a GPU.
[[nodiscard]] Gpus list_gpus();

/// Makes a GPU this thread's current one. Error(kTooLittle) if it cannot be used; Error(kBadConfig) in a
/// build without CUDA.
void use_gpu(int index);

/// Text with the version of the CUDA runtime, "CUDA 13.0", or that the build has none.
[[nodiscard]] std::string cuda_version_text();

}  // namespace sluice
