#include "ops/buffers/adafactor.hpp"

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

/// Rows of a matrix in one or more parts, as ranks hold them.
struct Factored {
  at::Tensor weights, row, column;
  std::vector<std::int64_t> cuts;  ///< rows at which parts begin, and their end

  Factored(const at::Tensor& start, std::vector<std::int64_t> parts)
      : weights(start.clone()),
        row(at::zeros({start.size(0)})),
        column(at::zeros({start.dim() > 1 ? start.size(1) : start.size(0)})),
        cuts(std::move(parts)) {}

  void step(int t, const at::Tensor& gradient) {
    const bool is_vector = weights.dim() == 1;
    const std::int64_t width = column.numel(), rows = is_vector ? 1 : weights.size(0);
    const double rho = std::pow(t, kAdafactorDecay);
    const UpdateFormats formats{.state = StateFormat::kFactored};
    std::vector<FactoredRun> runs;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
      runs.push_back(
          {.rows = cuts[i + 1] - cuts[i],
           .columns = width,
           .begin = cuts[i] * width,
           .weights = reinterpret_cast<std::byte*>(weights.data_ptr<float>() + cuts[i] * width),
           .gradient = reinterpret_cast<const std::byte*>(gradient.data_ptr<float>() + cuts[i] * width),
           .row = is_vector ? nullptr : row.data_ptr<float>() + cuts[i],
           .column = column.data_ptr<float>()});
    std::vector<double> squares(static_cast<std::size_t>(width));
    double weight_squares = 0, row_sum = 0, update_squares = 0;
    for (const FactoredRun& run : runs) {
      const FactoredSums sums = adafactor_sums(run, formats, rho, squares.data());
      weight_squares += sums.weight_squares;
      row_sum += sums.rows;
    }
    adafactor_columns(runs.front(), rho, squares.data(), rows);
    const double mean_row = row_sum / static_cast<double>(rows);
    for (const FactoredRun& run : runs) update_squares += adafactor_update_squares(run, formats, mean_row);
    const auto elements = static_cast<double>(weights.numel());
    const double rate =
        std::max(kAdafactorEps2, std::sqrt(weight_squares / elements)) * std::min(kRate, 1 / std::sqrt(t));
    for (const FactoredRun& run : runs)
      adafactor_update(run, formats, mean_row, 1 - kRate * kDecay,
                       rate / std::max(1.0, std::sqrt(update_squares / elements) / kAdafactorD));
  }
};

void expect_follows(const at::Tensor& start, std::vector<std::int64_t> parts, double gradient_size) {
  Reference reference(start);
  Factored factored(start, std::move(parts));
  for (int t = 1; t <= 4; ++t) {
    const at::Tensor gradient =
        numbers(start.sizes(), at::kFloat, static_cast<std::uint64_t>(t)) * gradient_size;
    reference.step(t, gradient);
    factored.step(t, gradient);
    expect_close(factored.weights, reference.weights.to(at::kFloat), 2e-6);
  }
}

TEST(Adafactor, follows_torch_on_a_matrix) { expect_follows(numbers({70, 1500}), {0, 70}, 1e-2); }

TEST(Adafactor, is_the_same_for_rows_on_several_ranks) {
  expect_follows(numbers({70, 300}), {0, 1, 44, 70}, 1e-2);
}

TEST(Adafactor, follows_torch_on_a_vector) { expect_follows(numbers({1300}), {0, 1}, 1e-2); }

TEST(Adafactor, clips_updates_of_gradients_that_grow) { expect_follows(numbers({33, 65}), {0, 33}, 1e3); }

TEST(Adafactor, leaves_weights_without_gradient_to_their_decay) {
  const at::Tensor start = numbers({20, 30});
  Factored factored(start, {0, 20});
  factored.step(1, at::zeros({20, 30}));
  expect_close(factored.weights, start * (1 - kRate * kDecay), 1e-6);
}

}  // namespace
}  // namespace sluice::ops
