// The GPUs that this process sees.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// One GPU as its driver describes it.
struct Gpu {
  std::string name;        ///< "NVIDIA H100 80GB HBM3"
  std::string identity;    ///< unique among all machines
  std::string capability;  ///< compute capability: "9.0"
  std::int64_t memory_bytes = 0;
  bool is_integrated = false;  ///< shares the memory of the CPU
};

/// GPUs in the order in which use_gpu() counts them.
struct Gpus {
  std::vector<Gpu> list;
  std::string lack;  ///< reason why there are none: "no CUDA-capable device is detected"
};

/// Whether the build has CUDA.
[[nodiscard]] bool has_cuda();

/// Allocates nothing on a GPU. Without CUDA in the build, without a driver or without a GPU: an empty list.
[[nodiscard]] Gpus list_gpus();

/// Makes it the current one of this thread. Error(kTooLittle) if it cannot be used. Error(kBadConfig) without
/// CUDA.
void use_gpu(int index);

/// "CUDA 13.0", the runtime's, or that the build has none.
[[nodiscard]] std::string cuda_version_text();

}  // namespace sluice
