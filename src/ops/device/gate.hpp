// Activation of whole tensors, in the variants of Gating. Internal to src/ops/device.
#pragma once

#include "ops/arithmetic/gate.hpp"
#include "ops/device/single.hpp"
#include "ops/runtime/gating.hpp"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>

namespace sluice::ops::device {

/// Activation of gate and up projections in float32, with the values that its gradients need.
struct OpenGate {
  /// Gate and up projections, clamped at the limit; the output is activation() * factor.
  at::Tensor gate, factor;
  at::Tensor exponent, sigmoid;  ///< Argument and value of the sigmoid in activation().
  at::Tensor growth;             ///< Gate times the derivative of the exponent by it.
  /// Masks of the elements that were not clamped; undefined: none was clamped.
  at::Tensor gate_passes, up_passes;
  /// Factor of both gradients: 2 without a gate, where each is half of the gradient of the one projection.
  int share = 1;

  OpenGate(const at::Tensor& gates, const at::Tensor& ups, const Gating& gating)
      : gate(single(gates)), factor(single(ups)) {
    if (gating.has_limit()) {
      gate_passes = gate.le(gating.limit);
      up_passes = factor.abs().le(gating.limit);
      gate = gate.clamp_max(gating.limit);
      factor = factor.clamp(-gating.limit, gating.limit) + 1;
    }
    if (!gating.has_gate()) {
      gate = factor = factor.clamp_min(0);
      growth = exponent = sigmoid = at::ones_like(gate);
      share = 2;
      return;
    }
    growth = exponent = gating.has_limit() ? gate * gating.slope : gate;
    if (gating.activation == Activation::kGeluTanh) {
      const at::Tensor cubic = arithmetic::kGeluCubic * gate * gate;
      exponent = gate * (cubic + arithmetic::kGeluLinear);
      growth = gate * (3 * cubic + arithmetic::kGeluLinear);
    }
    sigmoid = at::sigmoid(exponent);
  }

  [[nodiscard]] at::Tensor activation() const { return gate * sigmoid; }
  /// Returns the gradient of the gate, from the gradient of activation() * factor.
  [[nodiscard]] at::Tensor gate_gradient(const at::Tensor& grad) const {
    const at::Tensor out = in_whole(grad * factor * sigmoid * (growth * (1 - sigmoid) + 1));
    return gate_passes.defined() ? out * gate_passes : out;
  }
  [[nodiscard]] at::Tensor up_gradient(const at::Tensor& grad) const {
    const at::Tensor out = in_whole(grad * activation());
    return up_passes.defined() ? out * up_passes : out;
  }

 private:
  [[nodiscard]] at::Tensor in_whole(const at::Tensor& grad) const { return share == 1 ? grad : grad * share; }
};

}  // namespace sluice::ops::device
