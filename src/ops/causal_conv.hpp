// Short causal convolution over tokens, one filter per channel.
#pragma once

#include "ops/documents.hpp"
#include "ops/parameter.hpp"
#include "ops/runtime/conv_activation.hpp"

namespace sluice::ops {

/// Convolution and activation, f(sum over j of w[c, 0, j] * x[b, t - K + 1 + j, c]), for x [b, L, C] and w
/// [C, 1, K], with zeros before the first token of a document; the result is [b, L, C]. Computed in float32,
/// rounded once to x's dtype.
[[nodiscard]] at::Tensor causal_conv(const at::Tensor& x, const Parameter& weight, ConvActivation activation,
                                     const Documents& documents = {});

/// causal_conv() of sequences that are continued. `window` [b, K - 1, C] holds the last inputs before x
/// [b, n, C] (zeros at first), and afterwards those that the next call needs. Forward only, records no graph.
[[nodiscard]] at::Tensor continue_causal_conv(const at::Tensor& x, const Parameter& weight,
                                              ConvActivation activation, at::Tensor& window);

}  // namespace sluice::ops
