// Root-mean-square normalisation.
#pragma once

#include "ops/parameter.hpp"

namespace sluice::ops {

/// weight [N] * (x / sqrt(mean(x^2) + eps)) over the last dimension of x [..., N], in x's dtype. As in
/// transformers, the normalised value is computed in float32 and rounded to the dtype before the product with
/// the weight.
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x, const Parameter& weight, double eps);

}  // namespace sluice::ops
