// LibTorch as a library: start, threads, rate, and errors.
#pragma once

#include "base/dtype.hpp"
#include "device/memory.hpp"

#include <functional>
#include <string>

namespace sluice::ops {

/// Starts LibTorch: sets the number of threads that LibTorch and its BLAS use in this process, and runs one
/// matrix product of each training type in `memory`, where the process will compute, so that both have
/// allocated the memory they keep. Must be called once, before the first operation.
void start_library(int threads, MemoryKind memory = MemoryKind::kPrivate);

/// Measured rate in FLOP/s of products of 1024 x 1024 matrices of `dtype` (kFloat32 or kBFloat16) in `memory`;
/// in main memory on this process's threads, which may share cores with other ranks. The reference for a
/// step's rate (MFU). The first call with these arguments and this number of threads takes up to 60 ms, or
/// three products if they take longer, and 12 MiB; later calls return what it measured.
[[nodiscard]] double product_rate(DType dtype, MemoryKind memory);

/// Text that says with how many threads this process computes, and how this processor computes large products
/// of bfloat16: "1 thread, products of bfloat16 and of codes on tile registers (AMX)".
[[nodiscard]] std::string means_text();
/// The same without threads; and how it computes those of a few rows with codes: "of a few tokens with INT4, ...
/// as they lie, ...".
[[nodiscard]] std::string products_text();
[[nodiscard]] std::string few_products_text();

/// Text that says how this processor multiplies a few rows with codes under Products::kInt8, and which codes
/// stay exact: "a few tokens in int8 (VNNI) with INT4, ...".
[[nodiscard]] std::string few_rows_text();

/// Number of threads with which this process computes.
[[nodiscard]] int thread_count();

/// Text that names the BLAS of this process, which computes matmuls of float32: "OpenBLAS on OpenMP threads",
/// "OpenBLAS on threads of its own", "OpenBLAS on one thread" or "another BLAS".
[[nodiscard]] std::string blas_text();
/// Whether the BLAS has a thread pool beside LibTorch's: with more than one thread per rank the two pools
/// compete for the same cores, and matmuls of float32 take longer.
[[nodiscard]] bool blas_has_own_threads();

/// Runs `action`. An error of LibTorch becomes Error(kInternal), or Error(kTooLittle) if memory is lacking,
/// with LibTorch's message but without its backtrace; other exceptions pass.
void with_plain_errors(const std::function<void()>& action);

}  // namespace sluice::ops
