// SwiGLU of one gate and one up number, in the variants of Gating. Internal to src/ops.
#pragma once

#include "ops/arithmetic/element.hpp"
#include "ops/runtime/gating.hpp"

#include <cmath>

namespace sluice::ops::arithmetic {

/// Plain SwiGLU: silu(gate) * up.
struct PlainGate {
  SLUICE_ELEMENT float cut_gate(float gate) const { return gate; }
  SLUICE_ELEMENT float factor(float up) const { return up; }
  SLUICE_ELEMENT float exponent(float cut) const { return cut; }
  SLUICE_ELEMENT float through_gate(float /*gate*/, float grad) const { return grad; }
  SLUICE_ELEMENT float through_up(float /*up*/, float grad) const { return grad; }
};

/// SwiGLU with inputs that are clamped at a limit.
struct LimitedGate {
  float limit, slope;

  SLUICE_ELEMENT float cut_gate(float gate) const { return gate > limit ? limit : gate; }
  /// Returns the factor of the activated gate.
  SLUICE_ELEMENT float factor(float up) const {
    return (up > limit ? limit : (up < -limit ? -limit : up)) + 1.0F;
  }
  /// Returns the argument of the sigmoid that multiplies the clamped gate.
  SLUICE_ELEMENT float exponent(float cut) const { return cut * slope; }
  SLUICE_ELEMENT float through_gate(float gate, float grad) const { return gate > limit ? 0.0F : grad; }
  SLUICE_ELEMENT float through_up(float up, float grad) const { return std::abs(up) > limit ? 0.0F : grad; }
};

/// Calls f with the gate that `gating` describes.
template <class F>
void with_gate(const Gating& gating, F&& f) {
  if (gating.has_limit())
    f(LimitedGate{gating.limit, gating.slope});
  else
    f(PlainGate{});
}

}  // namespace sluice::ops::arithmetic
