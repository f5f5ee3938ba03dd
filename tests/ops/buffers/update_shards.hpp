// Weights with their optimizer state outside a trainer, for tests of the updates.
#pragma once

#include "ops/buffers/adafactor.hpp"
#include "ops/buffers/optimizer.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sluice::ops {

inline std::byte* bytes(at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

/// Every way in which state is kept beside bfloat16 weights.
inline std::vector<UpdateFormats> all_formats() {
  std::vector<UpdateFormats> all;
  for (const DType gradient : {DType::kFloat32, DType::kBFloat16})
    for (const MasterFormat master : {MasterFormat::kFloat32, MasterFormat::k24Bit, MasterFormat::kNone})
      for (const StateFormat state : {StateFormat::kFloat32, StateFormat::kBFloat16, StateFormat::kInt8})
        all.push_back({DType::kBFloat16, gradient, master, state});
  return all;
}

/// A matrix with room for its state in any format.
struct Shard {
  explicit Shard(const at::Tensor& start, UpdateFormats kept = {})
      : formats(kept),
        weights(start.to(kept.weights == DType::kFloat32 ? at::kFloat : at::kBFloat16).clone()) {}

  [[nodiscard]] UpdateRun run(const at::Tensor& gradient, std::int64_t begin = 0, std::int64_t count = -1) {
    const auto at = [&](at::Tensor& tensor, std::int64_t size) { return bytes(tensor) + begin * size; };
    const std::int64_t state = formats.state == StateFormat::kFloat32 ? 4
                               : formats.state == StateFormat::kInt8  ? 1
                                                                      : 2;
    return {.count = count < 0 ? weights.numel() - begin : count,
            .begin = begin,
            .draws = draws,
            .weights = at(weights, weights.element_size()),
            .master = at(master, formats.master == MasterFormat::kFloat32 ? 2 : 1),
            .first = at(first, state),
            .second = at(second, state),
            .first_scales = first_scales.data_ptr<float>() + begin / kStateBlock,
            .second_scales = second_scales.data_ptr<float>() + begin / kStateBlock,
            .gradient = static_cast<const std::byte*>(gradient.data_ptr()) + begin * gradient.element_size(),
            .decays = true};
  }
  /// Master weights as float32.
  [[nodiscard]] at::Tensor values() {
    if (formats.weights == DType::kFloat32) return weights;
    at::Tensor out = at::empty({weights.numel()}, at::kFloat);
    read_master(bytes(weights), bytes(master), formats.master, 0, weights.numel(), out.data_ptr<float>());
    return out;
  }
  void adamw(const at::Tensor& gradient, const AdamWStep& step, float scale = 1) {
    UpdateRun whole = run(gradient);
    whole.gradient_scale = scale;
    update_moments(std::span(&whole, 1), formats, step);
  }

  UpdateFormats formats;
  std::uint64_t draws = 5;
  at::Tensor weights;
  at::Tensor master = at::zeros({weights.numel()}, at::kShort);
  at::Tensor first = at::zeros({weights.numel()}, at::kFloat),
             second = at::zeros({weights.numel()}, at::kFloat);
  at::Tensor first_scales = at::zeros({weights.numel() / kStateBlock + 1}, at::kFloat);
  at::Tensor second_scales = at::zeros({weights.numel() / kStateBlock + 1}, at::kFloat);
};

/// Largest error of float32 arithmetic in one update, of the number itself: a few roundings of 2^-24.
inline constexpr double kArithmetic = 0x1p-22;
/// Half the distance of bfloat16 numbers, of the number itself.
inline constexpr double kHalfBFloat16 = 0x1p-8;

/// Largest error of a gradient in that format, of the gradient itself.
inline double largest_rounding(DType gradient) {
  return gradient == DType::kFloat32 ? kArithmetic : kHalfBFloat16;
}
/// Distance of neighbours in that format, between which a weight is rounded stochastically, of the weight itself.
inline double stochastic_rounding(MasterFormat master) {
  return master == MasterFormat::kFloat32 ? 0 : master == MasterFormat::k24Bit ? 0x1p-15 : 2 * kHalfBFloat16;
}

/// How far the formats of an optimizer's numbers may take weights from those of exact arithmetic.
struct KeptBits {
  at::Tensor of_updates;    ///< largest errors of updates, with what is rounded to nearest
  at::Tensor of_roundings;  ///< largest errors of the stochastic roundings behind them
  at::Tensor variance;      ///< the largest one of the sum of those roundings

  explicit KeptBits(const at::Tensor& start)
      : of_updates(at::zeros_like(start, at::kDouble)), of_roundings(of_updates), variance(of_updates) {}

  [[nodiscard]] at::Tensor largest() const { return of_updates + of_roundings; }
  /// An update that may be `apart` from the exact one, after which the exact weights are `weights`.
  void add(const at::Tensor& apart, const at::Tensor& weights, MasterFormat master) {
    of_updates = of_updates + apart + kArithmetic * (weights.abs() + largest());
    const at::Tensor rounding = stochastic_rounding(master) * (weights.abs() + largest());
    of_roundings = of_roundings + rounding;
    variance = variance + rounding.square() / 4;
  }
  /// Each weight lies as near as it must, and stochastic roundings lean to no side: along the movement, and along
  /// the weights themselves, those of all together are a random walk.
  void expect(const at::Tensor& found, const at::Tensor& exact, const at::Tensor& start) const {
    const at::Tensor difference = found.to(at::kDouble) - exact;
    EXPECT_LE((difference.abs() / largest()).max().item<double>(), 1);
    for (const at::Tensor& direction : {exact - start, start.to(at::kDouble)}) {
      const double systematic = (direction.abs() * of_updates).sum().item<double>();
      const double random = std::sqrt((direction.square() * variance).sum().item<double>());
      EXPECT_LE(std::abs((direction * difference).sum().item<double>()), systematic + 4 * random);
    }
  }
};

/// Rows of a matrix in one or more parts, as ranks hold them.
struct Factored {
  UpdateFormats formats;
  at::Tensor weights, master, row, column;
  std::vector<std::int64_t> cuts;  ///< rows at which parts begin, and their end

  Factored(const at::Tensor& start, std::vector<std::int64_t> parts, UpdateFormats kept = {})
      : formats(kept),
        weights(start.to(kept.weights == DType::kFloat32 ? at::kFloat : at::kBFloat16).clone()),
        master(at::zeros({start.numel()}, at::kShort)),
        row(at::zeros({start.size(0)})),
        column(at::zeros({start.dim() > 1 ? start.size(1) : start.size(0)})),
        cuts(std::move(parts)) {
    formats.state = StateFormat::kFactored;
  }
  /// Master weights as float32, of bfloat16 weights.
  [[nodiscard]] at::Tensor values() {
    at::Tensor out = at::empty(weights.sizes(), at::kFloat);
    read_master(bytes(weights), bytes(master), formats.master, 0, weights.numel(), out.data_ptr<float>());
    return out;
  }

  void step(int t, const at::Tensor& gradient, double rate, double decay) {
    const bool is_vector = weights.dim() == 1;
    const std::int64_t width = column.numel(), rows = is_vector ? 1 : weights.size(0);
    const double rho = std::pow(t, kAdafactorDecay);
    const std::int64_t rest = formats.master == MasterFormat::kFloat32 ? 2 : 1;
    std::vector<FactoredRun> runs;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
      runs.push_back({.rows = cuts[i + 1] - cuts[i],
                      .columns = width,
                      .begin = cuts[i] * width,
                      .draws = static_cast<std::uint64_t>(t),
                      .weights = bytes(weights) + cuts[i] * width * weights.element_size(),
                      .master = bytes(master) + cuts[i] * width * rest,
                      .gradient = static_cast<const std::byte*>(gradient.data_ptr()) +
                                  cuts[i] * width * gradient.element_size(),
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
    const double relative =
        std::max(kAdafactorEps2, std::sqrt(weight_squares / elements)) * std::min(rate, 1 / std::sqrt(t));
    for (const FactoredRun& run : runs)
      adafactor_update(run, formats, mean_row, 1 - rate * decay,
                       relative / std::max(1.0, std::sqrt(update_squares / elements) / kAdafactorD));
  }
};

}  // namespace sluice::ops
