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
  /// Gate and up projections, clamped at the limit if it is theirs; the output is activation() * factor.
  at::Tensor gate, factor;
  at::Tensor exponent, sigmoid;  ///< Argument and value of the sigmoid in activation().
  at::Tensor growth;             ///< Gate times the derivative of the exponent by it.
  /// Masks of the elements that were clamped, the gate or its silu, and up; undefined: none was clamped.
  at::Tensor gate_cut, up_cut;
  /// Factor of both gradients: 2 without a gate, where each is half of the gradient of the one projection.
  int share = 1;
  float silu_limit = 0;  ///< Limit of activation(); 0: none.

  OpenGate(const at::Tensor& gates, const at::Tensor& ups, const Gating& gating)
      : gate(single(gates)), factor(single(ups)) {
    const bool limits_gate = gating.has_limit() && gating.clamp == Clamp::kGate;
    if (gating.has_limit()) {
      up_cut = factor.abs().gt(gating.limit);
      factor = factor.clamp(-gating.limit, gating.limit);
    }
    if (limits_gate) {
      gate_cut = gate.gt(gating.limit);
      gate = gate.clamp_max(gating.limit);
      factor = factor + 1;
    }
    if (!gating.has_gate()) {
      gate = factor = factor.clamp_min(0);
      growth = exponent = sigmoid = at::ones_like(gate);
      share = 2;
      return;
    }
    growth = exponent = limits_gate ? gate * gating.slope : gate;
    if (gating.activation == Activation::kGeluTanh) {
      const at::Tensor cubic = arithmetic::kGeluCubic * gate * gate;
      exponent = gate * (cubic + arithmetic::kGeluLinear);
      growth = gate * (3 * cubic + arithmetic::kGeluLinear);
    }
    sigmoid = at::sigmoid(exponent);
    if (!gating.has_limit() || limits_gate) return;
    silu_limit = gating.limit;
    gate_cut = (gate * sigmoid).gt(silu_limit);
  }

  [[nodiscard]] at::Tensor activation() const {
    const at::Tensor out = gate * sigmoid;
    return silu_limit > 0 ? out.clamp_max(silu_limit) : out;
  }
  /// Returns the gradient of the gate, from the gradient of activation() * factor.
  [[nodiscard]] at::Tensor gate_gradient(const at::Tensor& grad) const {
    const at::Tensor out = in_whole(grad * factor * sigmoid * (growth * (1 - sigmoid) + 1));
    return gate_cut.defined() ? out.masked_fill(gate_cut, 0) : out;
  }
  [[nodiscard]] at::Tensor up_gradient(const at::Tensor& grad) const {
    const at::Tensor out = in_whole(grad * activation());
    return up_cut.defined() ? out.masked_fill(up_cut, 0) : out;
  }

 private:
  [[nodiscard]] at::Tensor in_whole(const at::Tensor& grad) const { return share == 1 ? grad : grad * share; }
};

}  // namespace sluice::ops::device
