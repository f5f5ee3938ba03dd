// Decays between the tokens of a chunk of a scan.
#pragma once

#include "ops/cpu/kernel.hpp"
#include "ops/state_decay.hpp"

#include <ATen/core/Tensor.h>

namespace sluice::ops::cpu {

/// Returns ops::state_decay() of one number.
SLUICE_ELEMENT float state_decay(float log_decay) {
  const float decay = kernel::exponential_below(log_decay);
  return log_decay <= static_cast<float>(kLeastLogDecay) ? 0.0F : decay;
}

/// Computes decays [b, heads, t, t] float32, all of it: e^(sums_i - sums_j) in row i for tokens j up to i of its
/// document, otherwise 0. `sums` [b, heads, t] float64: log decays summed from the chunk's first token, whose
/// differences are taken before they are rounded; `document` [b, t] int64: first token of each token's document,
/// counted from the chunk's first, undefined without packed documents. All are dense.
void scan_decays(const at::Tensor& sums, const at::Tensor& document, const at::Tensor& decays);

}  // namespace sluice::ops::cpu
