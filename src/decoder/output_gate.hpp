// Gate on the output of attention, of heads one by one or of their entries.
#pragma once

#include "model/model_config.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>

namespace sluice {

/// The attention's result `mixed` [b, L, heads, d] times the sigmoid or the softplus, computed in float32, of the
/// gate's projection [b, L, heads, d or 1]; `mixed` where a model has no gate, whose projection is undefined.
[[nodiscard]] inline at::Tensor gated(const ModelConfig& config, const at::Tensor& mixed,
                                      const at::Tensor& projected) {
  if (!projected.defined()) return mixed;
  if (!config.softplus_gate) return mixed * at::sigmoid(projected);
  return mixed * at::softplus(projected.to(at::kFloat)).to(projected.scalar_type());
}

}  // namespace sluice
