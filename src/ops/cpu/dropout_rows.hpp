// The loop of dropout. Internal to src/ops.
#pragma once

#include "base/random.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops::cpu {

/// Computes out = x / (1 - rate) [n, width], both dense, but writes 0 where number (first_row + row) * width
/// + column of the random stream `draws` is below `rate`.
void dropout_rows(const at::Tensor& x, double rate, const RandomStream& draws, std::int64_t first_row,
                  const at::Tensor& out);

}  // namespace sluice::ops::cpu
