// Activation of one gate and one up number, in the variants of Gating. Internal to src/ops.
#pragma once

#include "ops/arithmetic/element.hpp"
#include "ops/runtime/gating.hpp"

#include <cmath>

namespace sluice::ops::arithmetic {

/// Coefficients of the gate and of its cube in the exponent of GELU: 2 sqrt(2 / pi), and 0.044715 times that.
constexpr float kGeluLinear = 1.5957691216057308F, kGeluCubic = 0.07135481627159841F;

/// What gates share whose up number is clamped to [-limit, limit].
struct LimitedUp {
  float limit;

  SLUICE_ELEMENT float cut_up(float up) const { return up > limit ? limit : (up < -limit ? -limit : up); }
  SLUICE_ELEMENT float through_up(float up, float grad) const { return std::abs(up) > limit ? 0.0F : grad; }
};

/// What gates share whose activation, cut_gate(gate) * sigmoid(exponent(cut_gate(gate))), has no limit.
struct UncutActivation {
  SLUICE_ELEMENT float cut_activation(float activation) const { return activation; }
};

/// What gates without a limit share.
struct UnlimitedGate : UncutActivation {
  SLUICE_ELEMENT float cut_gate(float gate) const { return gate; }
  SLUICE_ELEMENT float factor(float up) const { return up; }
  /// Returns the gradient of the gate for `grad`, that of a gate whose `activation` was not cut.
  SLUICE_ELEMENT float through_gate(float /*gate*/, float /*activation*/, float grad) const { return grad; }
  SLUICE_ELEMENT float through_up(float /*up*/, float grad) const { return grad; }
};

/// Plain SwiGLU: silu(gate) * up.
struct PlainGate : UnlimitedGate {
  SLUICE_ELEMENT float exponent(float cut) const { return cut; }
  /// Returns the gate times the derivative of the exponent by it.
  SLUICE_ELEMENT float growth(float /*cut*/, float exponent) const { return exponent; }
};

/// SwiGLU with inputs that are clamped at a limit.
struct LimitedGate : LimitedUp, UncutActivation {
  float slope;

  SLUICE_ELEMENT float cut_gate(float gate) const { return gate > limit ? limit : gate; }
  /// Returns the factor of the activated gate.
  SLUICE_ELEMENT float factor(float up) const { return cut_up(up) + 1.0F; }
  /// Returns the argument of the sigmoid that multiplies the clamped gate.
  SLUICE_ELEMENT float exponent(float cut) const { return cut * slope; }
  SLUICE_ELEMENT float growth(float /*cut*/, float exponent) const { return exponent; }
  SLUICE_ELEMENT float through_gate(float gate, float /*activation*/, float grad) const {
    return gate > limit ? 0.0F : grad;
  }
};

/// SwiGLU whose two factors are clamped at a limit: the silu of the gate, and the up number.
struct LimitedSilu : LimitedUp {
  SLUICE_ELEMENT float cut_gate(float gate) const { return gate; }
  SLUICE_ELEMENT float cut_activation(float activation) const {
    return activation > limit ? limit : activation;
  }
  SLUICE_ELEMENT float factor(float up) const { return cut_up(up); }
  SLUICE_ELEMENT float exponent(float cut) const { return cut; }
  SLUICE_ELEMENT float growth(float /*cut*/, float exponent) const { return exponent; }
  SLUICE_ELEMENT float through_gate(float /*gate*/, float activation, float grad) const {
    return activation > limit ? 0.0F : grad;
  }
};

/// GELU by its formula with tanh, as sigmoids: gate * sigmoid(2 sqrt(2 / pi) (gate + 0.044715 gate^3)) * up.
struct GeluGate : UnlimitedGate {
  SLUICE_ELEMENT float exponent(float cut) const { return cut * (kGeluLinear + kGeluCubic * cut * cut); }
  SLUICE_ELEMENT float growth(float cut, float /*exponent*/) const {
    return cut * (kGeluLinear + 3 * kGeluCubic * cut * cut);
  }
};

/// relu(up)^2, for a gate that is the up number itself: relu(gate) * relu(up), with a sigmoid of 1. The gradient
/// through either of the two factors is half of the whole, and each gets the whole.
struct SquaredRelu : UncutActivation {
  SLUICE_ELEMENT float cut_gate(float gate) const { return gate > 0 ? gate : 0.0F; }
  SLUICE_ELEMENT float factor(float up) const { return up > 0 ? up : 0.0F; }
  /// Returns a number whose sigmoid is 1 in float32.
  SLUICE_ELEMENT float exponent(float /*cut*/) const { return 100.0F; }
  SLUICE_ELEMENT float growth(float /*cut*/, float /*exponent*/) const { return 0; }
  SLUICE_ELEMENT float through_gate(float /*gate*/, float /*activation*/, float grad) const {
    return 2 * grad;
  }
  SLUICE_ELEMENT float through_up(float /*up*/, float grad) const { return 2 * grad; }
};

/// Calls f with the gate that `gating` describes.
template <class F>
void with_gate(const Gating& gating, F&& f) {
  if (!gating.has_gate())
    f(SquaredRelu{});
  else if (gating.has_limit() && gating.clamp == Clamp::kSilu)
    f(LimitedSilu{{gating.limit}});
  else if (gating.has_limit())
    f(LimitedGate{{gating.limit}, {}, gating.slope});
  else if (gating.activation == Activation::kGeluTanh)
    f(GeluGate{});
  else
    f(PlainGate{});
}

}  // namespace sluice::ops::arithmetic
