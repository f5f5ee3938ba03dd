// Decays of a scan's state. Internal to src/ops.
#pragma once

#include <ATen/ops/threshold.h>

#include <limits>

namespace sluice::ops {

/// Logarithm up to which a decay counts as 0, of 2^-64: what is left changes no sum in float32 that has other terms,
/// and its products with small numbers are subnormal, which many processors multiply a hundred times as slowly.
inline constexpr double kLeastLogDecay = -44.36;

/// Returns e^log_decay, or 0 up to kLeastLogDecay, with its graph.
[[nodiscard]] inline at::Tensor state_decay(const at::Tensor& log_decay) {
  return at::threshold(log_decay, kLeastLogDecay, -std::numeric_limits<double>::infinity()).exp();
}

}  // namespace sluice::ops
