// Weights with their optimizer state outside a trainer, for tests of the updates.
#pragma once

#include "ops/buffers/adafactor.hpp"
#include "ops/buffers/optimizer.hpp"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sluice::ops {

inline std::byte* bytes(at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

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

/// Rows of a matrix in one or more parts, as ranks hold them.
struct Factored {
  at::Tensor weights, row, column;
  std::vector<std::int64_t> cuts;  ///< rows at which parts begin, and their end

  Factored(const at::Tensor& start, std::vector<std::int64_t> parts)
      : weights(start.clone()),
        row(at::zeros({start.size(0)})),
        column(at::zeros({start.dim() > 1 ? start.size(1) : start.size(0)})),
        cuts(std::move(parts)) {}

  void step(int t, const at::Tensor& gradient, double rate, double decay) {
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
    const double relative =
        std::max(kAdafactorEps2, std::sqrt(weight_squares / elements)) * std::min(rate, 1 / std::sqrt(t));
    for (const FactoredRun& run : runs)
      adafactor_update(run, formats, mean_row, 1 - rate * decay,
                       relative / std::max(1.0, std::sqrt(update_squares / elements) / kAdafactorD));
  }
};

}  // namespace sluice::ops
