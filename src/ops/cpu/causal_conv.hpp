// The loops of the causal convolution. Internal to src/ops.
#pragma once

#include "ops/documents.hpp"
#include "ops/runtime/conv_activation.hpp"

#include <utility>

namespace sluice::ops::cpu {

/// Computes y = causal_conv() of x [b, L, C] with the filters `weight` [C, 1, K] and the `bias` [C], undefined for
/// none; x and y are dense, of one dtype.
void causal_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                 ConvActivation activation, const Documents& documents, const at::Tensor& y);

/// Computes d_x from d_y, both dense and shaped as x. Returns the gradients of the filters, float32 [C, 1, K],
/// and of a bias, float32 [C].
[[nodiscard]] std::pair<at::Tensor, at::Tensor> causal_conv_backward(
    const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, ConvActivation activation,
    const Documents& documents, const at::Tensor& d_y, const at::Tensor& d_x);

}  // namespace sluice::ops::cpu
