// Short causal convolution over tokens, one filter per channel.
#pragma once

#include "ops/documents.hpp"
#include "ops/parameter.hpp"
#include "ops/runtime/conv_activation.hpp"

namespace sluice::ops {

/// Convolution and activation, f(bias[c] + sum over j of w[c, 0, j] * x[b, t - K + 1 + j, c]), for x [b, L, C],
/// w [C, 1, K] and a bias [C], undefined for none, with zeros before the first token of a document; the result is
/// [b, L, C]. Computed in float32, rounded once to x's dtype.
[[nodiscard]] at::Tensor causal_conv(const at::Tensor& x, const Parameter& weight, ConvActivation activation,
                                     const Documents& documents = {}, const Parameter& bias = {});

/// causal_conv() of sequences that are continued. `window` [b, K - 1, C] holds the last inputs before x
/// [b, n, C] (zeros at first), and afterwards those that the next call needs. Forward only, records no graph.
[[nodiscard]] at::Tensor continue_causal_conv(const at::Tensor& x, const Parameter& weight,
                                              ConvActivation activation, at::Tensor& window,
                                              const Parameter& bias = {});

}  // namespace sluice::ops
