// A SwiGLU of whole tensors, as Gating says. Internal to src/ops/device.
#pragma once

#include "ops/device/single.hpp"
#include "ops/runtime/gating.hpp"

#include <ATen/ops/sigmoid.h>

namespace sluice::ops::device {

/// Of gate and up, in float32.
struct OpenGate {
  at::Tensor gate, factor;  ///< cut off at the limit; factor is what the activated gate is multiplied with
  at::Tensor exponent, sigmoid;       ///< of the gate: gate * sigmoid is its activation
  at::Tensor gate_passes, up_passes;  ///< where gradients pass; undefined: everywhere

  OpenGate(const at::Tensor& gates, const at::Tensor& ups, const Gating& gating)
      : gate(single(gates)), factor(single(ups)) {
    if (gating.has_limit()) {
      gate_passes = gate.le(gating.limit);
      up_passes = factor.abs().le(gating.limit);
      gate = gate.clamp_max(gating.limit);
      factor = factor.clamp(-gating.limit, gating.limit) + 1;
    }
    exponent = gating.has_limit() ? gate * gating.slope : gate;
    sigmoid = at::sigmoid(exponent);
  }

  [[nodiscard]] at::Tensor activation() const { return gate * sigmoid; }
  /// From the gradient of activation() * factor.
  [[nodiscard]] at::Tensor gate_gradient(const at::Tensor& grad) const {
    const at::Tensor out = grad * factor * sigmoid * (exponent * (1 - sigmoid) + 1);
    return gate_passes.defined() ? out * gate_passes : out;
  }
  [[nodiscard]] at::Tensor up_gradient(const at::Tensor& grad) const {
    const at::Tensor out = grad * activation();
    return up_passes.defined() ? out * up_passes : out;
  }
};

}  // namespace sluice::ops::device
