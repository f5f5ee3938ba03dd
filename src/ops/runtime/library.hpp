// LibTorch as a whole: how it starts, and how it fails.
#pragma once

#include "base/dtype.hpp"

#include <functional>
#include <string>

namespace sluice::ops {

/// Sets how many threads LibTorch and the BLAS behind it use in this process, and runs one matrix product of
/// each training type, so that they have allocated what they keep. Call it once, before the first operation.
void start_library(int threads);

/// The rate, in FLOP/s, of products of 1024 x 1024 matrices of `dtype` (kFloat32 or kBFloat16) on this
/// process's threads, which may share cores with other ranks: what a step is held against. Takes up to 60 ms,
/// or three products where they take longer, and 12 MiB.
[[nodiscard]] double product_rate(DType dtype);

/// How many threads this process computes with, and how large products of bfloat16 are computed on this
/// processor: "1 thread, products of bfloat16 on tile registers (AMX)".
[[nodiscard]] std::string means_text();

/// How many threads this process computes with.
[[nodiscard]] int thread_count();

/// The BLAS in this process, which computes matmuls of float32: "OpenBLAS on OpenMP threads", "OpenBLAS on
/// threads of its own", "OpenBLAS on one thread" or "another BLAS".
[[nodiscard]] std::string blas_text();
/// Whether that BLAS runs a pool of threads beside LibTorch's: with more than one thread a rank the two pools
/// compete for the same cores, and matmuls of float32 copies take longer.
[[nodiscard]] bool blas_has_own_threads();

/// Runs `action`. An error of LibTorch's own becomes Error(kInternal), or Error(kTooLittle) where memory is
/// lacking, with what happened, without the backtrace through LibTorch's code; others pass.
void with_plain_errors(const std::function<void()>& action);

}  // namespace sluice::ops
