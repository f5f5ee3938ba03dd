// Products of the queries and keys of a chunk, decayed by channel: part of the gated delta rule. Internal to src/ops.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops {

/// Products [b, heads, t, t] float32, with D_ij = e^(log_decay_(j+1) + ... + log_decay_i) by channel:
///     of_queries_ij = sum of q_i k_j D_ij for j <= i,   of_keys_ij = sum of k_i k_j D_ij for j < i
/// and 0 elsewhere; or their gradients.
struct ChannelProducts {
  at::Tensor of_queries, of_keys;
};

/// Products of q and k with log_decay, at most 0, all [b, heads, t, d] float32, with their graph. The processor
/// alone computes them.
[[nodiscard]] ChannelProducts channel_products(const at::Tensor& q, const at::Tensor& k,
                                               const at::Tensor& log_decay);

}  // namespace sluice::ops
