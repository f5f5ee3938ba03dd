// Matmuls, by whatever is the fastest on this processor: its matrix tiles, oneDNN, or LibTorch. Internal to
// src/ops.
#pragma once

#include "ops/matmul.hpp"

#include <string_view>

namespace sluice::ops::cpu {

/// ops::matmul() on this processor.
void matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into);
[[nodiscard]] at::Tensor matmul(const at::Tensor& a, const at::Tensor& b);

/// How large ones of bfloat16 are computed: "on tile registers (AMX)".
[[nodiscard]] std::string_view matmul_means();

}  // namespace sluice::ops::cpu
