// Products of queries and keys of a chunk, with a decay of each channel of their own between any two tokens.
#pragma once

#include "ops/channel_products.hpp"

namespace sluice::ops::cpu {

/// Queries, keys and logarithms of decays, at most 0, of the tokens of a chunk; or their gradients. All are
/// [b, heads, t, d] float32 and dense.
struct ChannelInputs {
  at::Tensor q, k, log_decay;
};

/// Computes all of `products`, which are dense. The first half of a chunk's tokens is decayed to the middle and the
/// second half from it, then each half is halved itself: so every factor is at most 1, and every exponent a sum,
/// never a difference.
void channel_products(const ChannelInputs& inputs, const ChannelProducts& products);

/// Computes all of `grads`, the gradients of the inputs, for dense ones of the products, of which only what may
/// differ from 0 is read.
void channel_products_backward(const ChannelInputs& inputs, const ChannelProducts& d_products,
                               const ChannelInputs& grads);

}  // namespace sluice::ops::cpu
