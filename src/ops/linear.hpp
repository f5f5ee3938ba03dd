// Matrix products with a weight.
#pragma once

#include "ops/parameter.hpp"

namespace sluice::ops {

/// x [T, in] times the transpose of w [out, in]: [T, out]. No bias.
[[nodiscard]] at::Tensor linear(const at::Tensor& x, const Parameter& w);

/// sum [p, q] (float32, contiguous rows) += a b for a [p, n] and b [n, q] of one dtype, each dense or the
/// transpose of a dense matrix. A product of bfloat16 is rounded to bfloat16 before it is added.
void add_product(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b);

/// grad [p, q] (float32, contiguous rows) += a^T b for a [n, p] and b [n, q] of one dtype. Products of
/// bfloat16 are rounded to bfloat16 before they are added, block by block, so that the temporary stays at a
/// few MiB.
void add_transposed_product(const at::Tensor& grad, const at::Tensor& a, const at::Tensor& b);

}  // namespace sluice::ops
