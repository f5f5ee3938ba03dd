// The loops of ops::cached_attention(). Internal to src/ops.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops::cpu {

/// q and out [n, nq, d] dense; keys and values [m, nkv, d], of each token dense; of one dtype.
void cached_attention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, double scale,
                      const at::Tensor& out);

}  // namespace sluice::ops::cpu
