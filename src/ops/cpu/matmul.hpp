// Matrix products, computed by what is fastest on this processor: its matrix tiles, oneDNN, vectors of widened
// factors, or, of float32, LibTorch.
// Internal to src/ops.
#pragma once

#include "encoding/coded_rows.hpp"
#include "ops/cpu/products/micro_kernel.hpp"
#include "ops/matmul.hpp"

#include <span>
#include <string_view>

namespace sluice::ops::cpu {

/// Computes ops::matmul() on this processor.
void matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into);
[[nodiscard]] at::Tensor matmul(const at::Tensor& a, const at::Tensor& b);

/// Computes out [m, n] = a [m, k] times the transpose of a weight of n rows that memory holds as codes, which are
/// packed as they become numbers: no copy of the weight lies in memory. Has the bits of matmul() with the same
/// numbers in bfloat16. Returns false, with `out` unchanged, for few rows, and for products that matmul() does
/// not compute by kernels of ours.
[[nodiscard]] bool matmul_of_codes(const at::Tensor& out, const at::Tensor& a,
                                   std::span<const CodedRows> weight);

/// The kernel of products whose factors are widened, at the level that computes here.
[[nodiscard]] const products::ProductKernel& widening_kernel();

/// Names how large products of bfloat16 are computed, for messages: "on tile registers (AMX)".
[[nodiscard]] std::string_view matmul_means();

}  // namespace sluice::ops::cpu
