// Exponentials of one number or of a vector of numbers. Internal to src/ops.
#pragma once

#include "ops/arithmetic/element.hpp"

namespace sluice::ops::arithmetic {

/// Computes e^r for |r| <= log(2) / 2 (Cephes polynomial). Number is float or a vector of float, which is passed
/// by reference: the calling convention of a vector by value depends on the enabled instruction sets.
template <class Number>
SLUICE_ELEMENT void exponential_of_remainder(const Number& r, Number& out) {
  Number p = 1.9875691500e-4F * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  out = p * r * r + r + 1.0F;
}

}  // namespace sluice::ops::arithmetic
