// What the formats of an optimizer's state promise: of given gradients, weights are as near to those of exact
// arithmetic as the bits say that each format keeps.
#include "ops/buffers/optimizer.hpp"
#include "ops/buffers/update_shards.hpp"
#include "ops/op_check.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <span>

namespace sluice::ops {
namespace {

constexpr std::int64_t kElements = 10007;
constexpr int kUpdates = 20;

/// For each element the largest one of its block of state.
at::Tensor largest_of_block(const at::Tensor& x) {
  const std::int64_t blocks = (x.numel() + kStateBlock - 1) / kStateBlock;
  const at::Tensor whole = at::constant_pad_nd(x, {0, blocks * kStateBlock - x.numel()});
  return whole.reshape({blocks, kStateBlock}).amax(1).repeat_interleave(kStateBlock).narrow(0, 0, x.numel());
}

/// Largest errors of first moments of these magnitudes, once they are stored.
at::Tensor first_moment_errors(const at::Tensor& magnitudes, StateFormat state) {
  if (state == StateFormat::kFloat32) return magnitudes * kArithmetic;
  if (state == StateFormat::kBFloat16) return magnitudes * kHalfBFloat16;
  // y = 2x / (1 + x) of x = magnitude / scale is kept to 1/254, and dx = (1 + x)^2 / 2 dy.
  const at::Tensor scale = largest_of_block(magnitudes);
  return (scale + magnitudes).square() / (2 * scale) / 254 * 1.02;
}

/// Second moments, which lie between two numbers.
struct SecondMoments {
  at::Tensor exact, least, most;

  void add(double beta, const at::Tensor& gradient, const at::Tensor& error) {
    const at::Tensor size = gradient.abs();
    exact = beta * exact + (1 - beta) * size.square();
    least = beta * least + (1 - beta) * (size - error).square();
    most = beta * most + (1 - beta) * (size + error).square();
  }
  void store(StateFormat state) {
    if (state == StateFormat::kInt8) return store_roots();
    const double error = state == StateFormat::kFloat32 ? kArithmetic : 2 * kHalfBFloat16;
    least = least * (1 - error);
    most = most * (1 + error);
  }

 private:
  /// Roots are kept in 255 steps of the largest of a block; what is nearer to zero than half a step becomes a
  /// whole one.
  void store_roots() {
    const at::Tensor low = least.sqrt(), high = most.sqrt(), step = largest_of_block(high) / 255;
    const at::Tensor error = at::where(low < 0.51 * step, step, 0.51 * step);
    least = (low - error).clamp_min(0).square();
    most = (high + error).square();
  }
};

at::Tensor update_of(const at::Tensor& first, const at::Tensor& second, const AdamWStep& step) {
  return step.lr * (first / step.bias_correction1) / ((second / step.bias_correction2).sqrt() + step.eps);
}

/// Weights by exact arithmetic, in float64, and how far those of some formats may be from them.
class Promise {
 public:
  Promise(const at::Tensor& start, const UpdateFormats& formats)
      : formats_(formats), weights_(start.to(at::kDouble)) {}

  void step(const at::Tensor& gradient, const AdamWStep& step) {
    const auto [g, error] = gradient_of(gradient);
    add_to_first(step.beta1, g, error);
    second_.add(step.beta2, g, error);
    const at::Tensor update = update_of(first_, second_.exact, step);
    at::Tensor apart = update.abs() * kArithmetic;
    for (const at::Tensor& first : {first_ - first_error_, first_ + first_error_})
      for (const at::Tensor& second : {second_.least, second_.most})
        apart = at::maximum(apart, (update_of(first, second, step) - update).abs());
    store_first();
    second_.store(formats_.state);
    move(update, apart, 1 - step.lr * step.weight_decay);
  }
  void step(const at::Tensor& gradient, const LionStep& step) {
    const auto [g, error] = gradient_of(gradient);
    const at::Tensor sum = step.beta1 * first_ + (1 - step.beta1) * g;
    const at::Tensor may_turn = sum.abs() <= step.beta1 * first_error_ + (1 - step.beta1) * error;
    add_to_first(step.beta2, g, error);
    store_first();
    move(step.lr * sum.sign(), 2 * step.lr * may_turn.to(at::kDouble), 1 - step.lr * step.weight_decay);
  }
  void expect_kept(const at::Tensor& found, const at::Tensor& start) const {
    bits_.expect(found, weights_, start);
  }

 private:
  struct Between {
    at::Tensor value, error;
  };
  [[nodiscard]] Between gradient_of(const at::Tensor& gradient) const {
    const at::Tensor g = gradient.to(at::kDouble);
    return {g, g.abs() * largest_rounding(formats_.gradient)};
  }
  void add_to_first(double beta, const at::Tensor& gradient, const at::Tensor& error) {
    first_ = beta * first_ + (1 - beta) * gradient;
    first_error_ = beta * first_error_ + (1 - beta) * error;
  }
  void store_first() {
    first_error_ = first_error_ + first_moment_errors(first_.abs() + first_error_, formats_.state);
  }
  void move(const at::Tensor& update, const at::Tensor& apart, double decay) {
    weights_ = weights_ * decay - update;
    bits_.add(apart, weights_, formats_.master);
  }

  UpdateFormats formats_;
  at::Tensor weights_;
  at::Tensor first_ = at::zeros_like(weights_), first_error_ = at::zeros_like(weights_);
  SecondMoments second_{at::zeros_like(weights_), at::zeros_like(weights_), at::zeros_like(weights_)};
  KeptBits bits_{weights_};
};

AdamWStep adamw_step(int t) {
  AdamWStep step{.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  step.bias_correction1 = 1 - std::pow(step.beta1, t);
  step.bias_correction2 = 1 - std::pow(step.beta2, t);
  return step;
}

LionStep lion_step(int) { return {.lr = 1e-3, .weight_decay = 0.1}; }

/// `step_number(t)`: the constants of step t, from 1.
template <class StepNumber>
void expect_kept_in_all_formats(StepNumber step_number) {
  const at::Tensor start = numbers({kElements}, at::kBFloat16).to(at::kFloat);
  for (const UpdateFormats& formats : all_formats()) {
    SCOPED_TRACE(testing::Message() << "gradient " << name_of(formats.gradient) << ", state "
                                    << name_of(formats.state) << ", master " << name_of(formats.master));
    Shard shard(start, formats);
    Promise promise(start, formats);
    for (int t = 1; t <= kUpdates; ++t) {
      shard.draws = static_cast<std::uint64_t>(t);
      const at::Tensor gradient = numbers({kElements}, at::kFloat, static_cast<std::uint64_t>(t + 10));
      promise.step(gradient, step_number(t));
      const at::Tensor kept = formats.gradient == DType::kFloat32 ? gradient : gradient.to(at::kBFloat16);
      UpdateRun whole = shard.run(kept);
      update_moments(std::span(&whole, 1), formats, step_number(t));
    }
    promise.expect_kept(shard.values(), start);
  }
}

TEST(KeptBits, hold_adamw_as_near_to_exact_arithmetic_as_they_are) { expect_kept_in_all_formats(adamw_step); }

TEST(KeptBits, hold_lion_as_near_to_exact_arithmetic_as_they_are) { expect_kept_in_all_formats(lion_step); }

}  // namespace
}  // namespace sluice::ops
