// Matrix products with a weight.
#pragma once

#include "ops/parameter.hpp"

namespace sluice::ops {

/// x [T, in] times the transpose of w [out, in]: [T, out]. No bias.
[[nodiscard]] at::Tensor linear(const at::Tensor& x, const Parameter& w);

}  // namespace sluice::ops
