// Products with the transpose of a weight, which memory may hold as codes. Internal to src/ops.
#pragma once

#include "ops/parameter.hpp"

#include <cstdint>

namespace sluice::ops {

/// out [m, n] = x [m, k] times the transpose of an expert's matrix [n, k] in `fused`. Rows below kFewRows are
/// multiplied with the codes of a stored matrix; a backward pass of experts has blocks of more rows, and needs
/// the whole matrix later on anyway.
void matmul_transposed(const at::Tensor& out, const at::Tensor& x, const Parameter& fused,
                       std::int64_t expert);

/// The same with a weight that is one matrix, as a new tensor.
[[nodiscard]] at::Tensor matmul_transposed(const at::Tensor& x, const Parameter& weight);

}  // namespace sluice::ops
