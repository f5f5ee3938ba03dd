// Short causal convolution over tokens, one filter per channel.
#pragma once

#include "ops/documents.hpp"
#include "ops/parameter.hpp"

namespace sluice::ops {

/// silu(sum over j of w[c, 0, j] * x[b, t - K + 1 + j, c]) for x [b, L, C] and w [C, 1, K], with zeros before
/// the first token of a document: [b, L, C]. Float32 inside, rounded once to x's dtype.
[[nodiscard]] at::Tensor causal_conv_silu(const at::Tensor& x, const Parameter& weight,
                                          const Documents& documents = {});

/// causal_conv_silu() of sequences that go on: before x [b, n, C] come `window` [b, K - 1, C], the last
/// inputs so far (zeros at first), which become those of the next call. Forward only, without a graph.
[[nodiscard]] at::Tensor continue_causal_conv_silu(const at::Tensor& x, const Parameter& weight,
                                                   at::Tensor& window);

}  // namespace sluice::ops
