// The loops of ops::cached_attention(). Internal to src/ops.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops::cpu {

/// Computes attention of q [n, nq, d] into `out` [n, nq, e], both dense; keys [m, nkv, d] and values [m, nkv, e] are
/// dense within a token; all of one dtype. `window` and `sinks` are those of AttentionForm.
void cached_attention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, double scale,
                      std::int64_t window, const at::Tensor& sinks, const at::Tensor& out);

}  // namespace sluice::ops::cpu
