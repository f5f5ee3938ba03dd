// The communicator over NCCL, for accelerator memory. CMake compiles nccl_communicator.cpp or, without NCCL,
// no_nccl.cpp.
#pragma once

#include "comm/communicator.hpp"

#include <memory>
#include <string>

namespace sluice {

/// Collective over `bootstrap`, which must outlive the result, and whose deadlines hold for it. Each rank
/// takes part with its current CUDA device; two ranks with one device are refused (kTooLittle) before NCCL,
/// which would hang, sees them.
///
/// Data pointers are device pointers, ordered by the stream of the call. What speaks of host memory goes
/// through `bootstrap`: barrier, texts, the all_reduce of spans, and host(); device pointers never reach MPI.
/// reduce_scatter_sum adds in NCCL's order, which is not rank order: the same bits come out for the same
/// ranks on the same GPUs and version of NCCL. It needs no staging.
///
/// The device runs the operations of one communicator one after another, whatever their streams: what is to
/// overlap, such as a prefetch beside a reduction, takes a communicator of its own from
/// duplicate_for_overlap().
///
/// Whatever NCCL does, a call ends within that limit: with Error(kInternal) that names the operation, the
/// communicator aborted; or, where a call of NCCL itself does not return, with the end of the process and the
/// same name.
///
/// Without NCCL in the build: Error(kBadConfig).
[[nodiscard]] std::unique_ptr<Communicator> make_nccl_communicator(Communicator& bootstrap);

/// Whether the build has NCCL.
[[nodiscard]] bool has_nccl();

/// Text about NCCL: "NCCL 2.28.9", or that the build has none.
[[nodiscard]] std::string nccl_version_text();

}  // namespace sluice
