// The loops of normalisation. Internal to src/ops.
#pragma once

#include "ops/norm.hpp"

namespace sluice::ops::cpu {

/// Computes y [..., N] = x / sqrt(mean(x^2) + eps) times weight [N], row by row, as row_norm() says, with x less its
/// mean where the kind says so; x, y and weight are dense, of one dtype. Writes scales [rows] (float32) = 1 /
/// sqrt(mean(x^2) + eps).
void norm_rows(const at::Tensor& x, const at::Tensor& weight, double eps, NormKind kind, const at::Tensor& y,
               const at::Tensor& scales);

/// Computes d_x from d_y, both dense and shaped as x, with the scales that norm_rows() wrote. Adds the
/// gradient of the weight to d_weight [N] (float32), if it is defined, in an order that does not depend on
/// the number of threads.
void norm_rows_backward(const at::Tensor& x, const at::Tensor& weight, NormKind kind,
                        const at::Tensor& scales, const at::Tensor& d_y, const at::Tensor& d_x,
                        const at::Tensor& d_weight);

}  // namespace sluice::ops::cpu
