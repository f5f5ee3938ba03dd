// The loops of ops::cached_attention(). Internal to src/ops.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops::cpu {

/// q and out [n, nq, d] dense; keys and values [m, nkv, d], of each token dense and as far apart in both; of
/// one dtype. `window` and `sinks` as in AttentionForm.
void cached_attention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, double scale,
                      std::int64_t window, const at::Tensor& sinks, const at::Tensor& out);

}  // namespace sluice::ops::cpu
