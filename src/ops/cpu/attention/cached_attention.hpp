// The loops of ops::cached_attention(). Internal to src/ops.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops::cpu {

/// Computes attention of q [n, nq, d] into `out`, dense and shaped as q; keys and values are [m, nkv, d],
/// dense within a token and of one stride between tokens; all of one dtype. `window` and `sinks` are those of
/// AttentionForm.
void cached_attention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, double scale,
                      std::int64_t window, const at::Tensor& sinks, const at::Tensor& out);

}  // namespace sluice::ops::cpu
