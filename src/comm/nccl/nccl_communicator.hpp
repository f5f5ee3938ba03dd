// The communicator over NCCL, for accelerator memory. CMake compiles nccl_communicator.cpp or, without NCCL,
// no_nccl.cpp.
#pragma once

#include "comm/communicator.hpp"

#include <memory>
#include <string>

namespace sluice {

/// Collective over `bootstrap`, which must outlive the result. Each rank takes part with its current CUDA
/// device; two ranks with one device are refused (kBadConfig) before NCCL, which would hang, sees them.
///
/// Data pointers are device pointers, ordered by the stream of the call. What speaks of host memory goes
/// through `bootstrap`: barrier, texts, and the all_reduce of spans. reduce_scatter_sum adds in NCCL's order,
/// which is fixed for a given machine but is not rank order; it needs no staging.
///
/// Without NCCL in the build: Error(kBadConfig).
[[nodiscard]] std::unique_ptr<Communicator> make_nccl_communicator(Communicator& bootstrap);

/// "NCCL 2.28.9", or that the build has none.
[[nodiscard]] std::string nccl_version_text();

}  // namespace sluice
