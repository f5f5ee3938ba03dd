// Decays between the tokens of a chunk of a scan.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops::cpu {

/// Computes decays [b, heads, t, t] float32, all of it: e^(sums_i - sums_j) in row i for tokens j up to i of its
/// document, otherwise 0. `sums` [b, heads, t] float64: log decays summed from the chunk's first token, whose
/// differences are taken before they are rounded; `document` [b, t] int64: first token of each token's document,
/// counted from the chunk's first, undefined without packed documents. All are dense.
void scan_decays(const at::Tensor& sums, const at::Tensor& document, const at::Tensor& decays);

}  // namespace sluice::ops::cpu
