// Matrix products, computed by what is fastest on this processor: its matrix tiles, oneDNN, vectors of widened
// factors, or, of float32, LibTorch.
// Internal to src/ops.
#pragma once

#include "ops/cpu/products/micro_kernel.hpp"
#include "ops/matmul.hpp"

#include <string_view>

namespace sluice::ops::cpu {

/// Computes ops::matmul() on this processor.
void matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into);
[[nodiscard]] at::Tensor matmul(const at::Tensor& a, const at::Tensor& b);

/// The kernel of products whose factors are widened, at the level that computes here.
[[nodiscard]] const products::ProductKernel& widening_kernel();

/// Names how large products of bfloat16 are computed, for messages: "on tile registers (AMX)".
[[nodiscard]] std::string_view matmul_means();

}  // namespace sluice::ops::cpu
