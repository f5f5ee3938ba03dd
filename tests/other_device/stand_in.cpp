// The device that is none as a GPU of the stand-ins for CUDA's runtime and NCCL (tests/nccl_stand_in): its
// memory is what cudaMalloc gives, and its stream CUDA's default stream. In place of backend.cpp, gpus.cpp
// and stream.cpp.
#include "base/error.hpp"
#include "nccl_stand_in/runtime.hpp"
#include "other_device/memory.hpp"
#include "other_device/stream.hpp"

#include <cuda_runtime_api.h>

#include <memory>
#include <string_view>
#include <utility>

namespace sluice::other_device {
namespace {

void check(cudaError_t status, std::string_view call) {
  if (status != cudaSuccess) fail(ExitCode::kInternal, "{} failed: {}", call, cudaGetErrorString(status));
}

const bool kIsUsed = [] {
  stand_in::use_memory(
      {.allocate = [](std::size_t bytes) -> void* { return take(static_cast<std::int64_t>(bytes)); },
       .release = give_back,
       .owns = owns,
       .readable = readable});
  return true;
}();

}  // namespace

void queue(std::function<void()> work) {
  auto* const kept = new std::function<void()>(std::move(work));
  check(cudaLaunchHostFunc(
            nullptr,
            [](void* data) {
              const std::unique_ptr<std::function<void()>> queued(static_cast<std::function<void()>*>(data));
              (*queued)();
            },
            kept),
        "cudaLaunchHostFunc");
}

void finish() {
  if (cudaStreamQuery(nullptr) == cudaSuccess) return;
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

}  // namespace sluice::other_device
