#include "ops/buffers/adafactor.hpp"

#include "ops/buffers/update_shards.hpp"
#include "ops/op_check.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace sluice::ops {
namespace {

constexpr double kRate = 0.05, kDecay = 0.1;

/// torch.optim.Adafactor of one matrix or vector, in float64.
struct Reference {
  at::Tensor weights, row, column;

  explicit Reference(const at::Tensor& start)
      : weights(start.to(at::kDouble)),
        row(at::zeros({start.size(0), 1}, at::kDouble)),
        column(start.dim() > 1 ? at::zeros({1, start.size(1)}, at::kDouble) : at::zeros_like(weights)) {}

  void step(int t, const at::Tensor& gradient) {
    const at::Tensor g = gradient.to(at::kDouble);
    const double rho = std::pow(t, kAdafactorDecay);
    const double rms = std::sqrt(weights.square().mean().item<double>());
    const double rate = std::max(kAdafactorEps2, rms) * std::min(kRate, 1 / std::sqrt(t));
    weights *= 1 - kRate * kDecay;
    at::Tensor estimate;
    if (g.dim() > 1) {
      row.lerp_(g.square().mean(1, true), rho);
      column.lerp_(g.square().mean(0, true), rho);
      estimate = row.matmul(column) / row.mean().clamp_min(kAdafactorEps1);
    } else {
      column.lerp_(g.square(), rho);
      estimate = column.clone();
    }
    const at::Tensor update = estimate.clamp_min(kAdafactorEps1 * kAdafactorEps1).rsqrt() * g;
    const double size = std::sqrt(update.square().mean().item<double>());
    weights -= rate / std::max(1.0, size / kAdafactorD) * update;
  }
};

void expect_follows(const at::Tensor& start, std::vector<std::int64_t> parts, double gradient_size) {
  Reference reference(start);
  Factored factored(start, std::move(parts));
  for (int t = 1; t <= 4; ++t) {
    const at::Tensor gradient =
        numbers(start.sizes(), at::kFloat, static_cast<std::uint64_t>(t)) * gradient_size;
    reference.step(t, gradient);
    factored.step(t, gradient, kRate, kDecay);
    expect_close(factored.weights, reference.weights.to(at::kFloat), 2e-6);
  }
}

TEST(Adafactor, follows_torch_on_a_matrix) { expect_follows(numbers({70, 1500}), {0, 70}, 1e-2); }

TEST(Adafactor, is_the_same_for_rows_on_several_ranks) {
  expect_follows(numbers({70, 300}), {0, 1, 44, 70}, 1e-2);
}

TEST(Adafactor, follows_torch_on_a_vector) { expect_follows(numbers({1300}), {0, 1}, 1e-2); }

TEST(Adafactor, clips_updates_of_gradients_that_grow) { expect_follows(numbers({33, 65}), {0, 33}, 1e3); }

void expect_kept_bits(DType gradient, MasterFormat master) {
  SCOPED_TRACE(testing::Message() << "gradient " << name_of(gradient) << ", master " << name_of(master));
  const at::Tensor start = numbers({70, 150}, at::kBFloat16).to(at::kFloat);
  Reference reference(start);
  Factored factored(start, {0, 70}, {.weights = DType::kBFloat16, .gradient = gradient, .master = master});
  KeptBits bits(start);
  // The gradient's own error, that of each of three means of its squares, and as much again of the update's
  // size, by which it is clipped.
  const double of_gradient = 2 * (1 + 3) * largest_rounding(gradient);
  for (int t = 1; t <= 20; ++t) {
    const at::Tensor exact = numbers(start.sizes(), at::kFloat, static_cast<std::uint64_t>(t));
    const at::Tensor before = reference.weights * (1 - kRate * kDecay);
    // Of the weights' size, by which updates are multiplied: stochastic roundings of all of them are a random
    // walk there, too.
    const at::Tensor squares = reference.weights.square();
    const double sum = squares.sum().item<double>();
    const double of_size =
        std::sqrt(bits.of_updates.square().sum().item<double>() / sum) +
        (4 * std::sqrt((squares * bits.variance).sum().item<double>()) + bits.variance.sum().item<double>()) /
            sum;
    reference.step(t, exact);
    factored.step(t, exact.to(gradient == DType::kFloat32 ? at::kFloat : at::kBFloat16), kRate, kDecay);
    bits.add((before - reference.weights).abs() * (of_gradient + of_size), reference.weights, master);
  }
  bits.expect(factored.values(), reference.weights, start);
}

TEST(Adafactor, keeps_bfloat16_weights_as_near_to_exact_arithmetic_as_their_bits) {
  for (const DType gradient : {DType::kFloat32, DType::kBFloat16})
    for (const MasterFormat master : {MasterFormat::kFloat32, MasterFormat::k24Bit, MasterFormat::kNone})
      expect_kept_bits(gradient, master);
}

TEST(Adafactor, leaves_weights_without_gradient_to_their_decay) {
  const at::Tensor start = numbers({20, 30});
  Factored factored(start, {0, 20});
  factored.step(1, at::zeros({20, 30}), kRate, kDecay);
  expect_close(factored.weights, start * (1 - kRate * kDecay), 1e-6);
}

}  // namespace
}  // namespace sluice::ops
