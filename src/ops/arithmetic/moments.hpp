// Formulas of AdamW and Lion on float32 numbers, for state in any format. Internal to src/ops.
#pragma once

#include "ops/arithmetic/element.hpp"
#include "ops/arithmetic/update_block.hpp"
#include "ops/buffers/optimizer.hpp"

#include <cmath>
#include <cstdint>

namespace sluice::ops::arithmetic {

/// Constants of an AdamWStep as float32 factors: of torch's formula, and of the same formula with numerator
/// and denominator multiplied by root_correction2.
struct AdamWFactors {
  static constexpr Moments kMoments = Moments::kFirstAndSecond;
  float decay, beta1_rest, beta2, beta2_rest, root_correction2, eps, step_size, gradient_scale, scaled_eps,
      scaled_step;
  AdamWFactors(const AdamWStep& step, const UpdateRun& run)
      : decay(run.decays ? static_cast<float>(1.0 - step.lr * step.weight_decay) : 1.0F),
        beta1_rest(static_cast<float>(1.0 - step.beta1)),
        beta2(static_cast<float>(step.beta2)),
        beta2_rest(static_cast<float>(1.0 - step.beta2)),
        root_correction2(static_cast<float>(std::sqrt(step.bias_correction2))),
        eps(static_cast<float>(step.eps)),
        step_size(static_cast<float>(step.lr / step.bias_correction1)),
        gradient_scale(run.gradient_scale),
        scaled_eps(static_cast<float>(step.eps * std::sqrt(step.bias_correction2))),
        scaled_step(static_cast<float>(step.lr / step.bias_correction1 * std::sqrt(step.bias_correction2))) {}
};

/// AdamW's formula over n elements. `second` holds second moments, or their square roots (kRoots). Uses
/// torch's sequence of operations, or (kScaled) one division less: divisions and roots take most of the time
/// for rounded state.
template <bool kRoots, bool kScaled>
SLUICE_ELEMENT void adamw(float* weights, float* m, float* second, const float* gradient, std::int64_t n,
                          const AdamWFactors& f) {
  SLUICE_VECTOR_LOOP
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gradient[i] * f.gradient_scale;
    m[i] += f.beta1_rest * (g - m[i]);
    const float v = (kRoots ? second[i] * second[i] : second[i]) * f.beta2 + f.beta2_rest * g * g;
    const float root = std::sqrt(v);
    second[i] = kRoots ? root : v;
    const float change = kScaled ? f.scaled_step * m[i] / (root + f.scaled_eps)
                                 : f.step_size * m[i] / (root / f.root_correction2 + f.eps);
    weights[i] = weights[i] * f.decay - change;
  }
}

/// Updates an open block by the formula of the factors.
template <std::int64_t kMost>
SLUICE_ELEMENT void update(OpenBlock<kMost>& block, const AdamWFactors& f) {
  if (block.has_roots())
    adamw<true, true>(block.weights(), block.first(), block.second(), block.gradient(), block.count(), f);
  else if (block.has_float32_state())
    adamw<false, false>(block.weights(), block.first(), block.second(), block.gradient(), block.count(), f);
  else
    adamw<false, true>(block.weights(), block.first(), block.second(), block.gradient(), block.count(), f);
}

/// Constants of one Lion step, in the form that its formula takes.
struct LionFactors {
  static constexpr Moments kMoments = Moments::kFirst;
  float decay, beta1, beta1_rest, beta2, beta2_rest, rate, gradient_scale;
  LionFactors(const LionStep& step, const UpdateRun& run)
      : decay(run.decays ? static_cast<float>(1.0 - step.lr * step.weight_decay) : 1.0F),
        beta1(static_cast<float>(step.beta1)),
        beta1_rest(static_cast<float>(1.0 - step.beta1)),
        beta2(static_cast<float>(step.beta2)),
        beta2_rest(static_cast<float>(1.0 - step.beta2)),
        rate(static_cast<float>(step.lr)),
        gradient_scale(run.gradient_scale) {}
};

SLUICE_ELEMENT void lion(float* weights, float* m, const float* gradient, std::int64_t n,
                         const LionFactors& f) {
  SLUICE_VECTOR_LOOP
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gradient[i] * f.gradient_scale;
    const float c = m[i] * f.beta1 + f.beta1_rest * g;
    const float direction = c > 0 ? f.rate : c < 0 ? -f.rate : 0.0F;
    weights[i] = weights[i] * f.decay - direction;
    m[i] = m[i] * f.beta2 + f.beta2_rest * g;
  }
}

template <std::int64_t kMost>
SLUICE_ELEMENT void update(OpenBlock<kMost>& block, const LionFactors& f) {
  lion(block.weights(), block.first(), block.gradient(), block.count(), f);
}

/// Type of the factors for an optimizer's step.
template <class Step>
struct StepFactors;
template <>
struct StepFactors<AdamWStep> {
  using Type = AdamWFactors;
};
template <>
struct StepFactors<LionStep> {
  using Type = LionFactors;
};
template <class Step>
using FactorsOf = typename StepFactors<Step>::Type;

/// Reads, updates and writes one block of a run.
template <std::int64_t kMost, class Factors>
SLUICE_ELEMENT void update_block(const UpdateRun& run, const UpdateFormats& formats, std::int64_t offset,
                                 std::int64_t count, const Factors& f) {
  OpenBlock<kMost> block(run, formats, offset, count, Factors::kMoments);
  update(block, f);
  block.save();
}

}  // namespace sluice::ops::arithmetic
