// Adafactor: steps over the matrices of a unit, whose rows several ranks may share.
#include "base/error.hpp"
#include "ops/buffers/adafactor.hpp"
#include "train/optimizer.hpp"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

ops::UpdateFormats formats_of(const MatrixState& matrix, DType weights, DType gradient) {
  return {.weights = weights, .gradient = gradient, .master = matrix.master, .state = matrix.state};
}

/// Sums over the ranks for one matrix, at its place in an array for all matrices: squares of its weights, the
/// sum of its row state, squares of its columns. A vector has no column sums: its elements are not shared.
struct MatrixSums {
  std::size_t begin = 0;
  [[nodiscard]] std::size_t weight_squares() const { return begin; }
  [[nodiscard]] std::size_t rows() const { return begin + 1; }
  [[nodiscard]] std::size_t columns() const { return begin + 2; }
  [[nodiscard]] std::size_t end(const MatrixShape& shape) const {
    return columns() + (shape.is_vector() ? 0 : static_cast<std::size_t>(shape.columns));
  }
};

}  // namespace

ops::FactoredRun Optimizer::factored_run(const GradientPart& gradient, const MatrixState& matrix,
                                         double scale) const {
  const std::int64_t count = matrix.owned.count();
  const bool is_vector = matrix.shape.is_vector();
  return {.rows = is_vector ? 1 : count / matrix.shape.columns,
          .columns = is_vector ? count : matrix.shape.columns,
          .begin = matrix.owned.begin,
          .draws = draws(matrix),
          .weights = weights_of(matrix),
          .master = array(matrix, StateArray::kMaster),
          .gradient = gradient_of(gradient, matrix),
          .row = reinterpret_cast<float*>(array(matrix, StateArray::kRow)),
          .column = reinterpret_cast<float*>(array(matrix, StateArray::kColumn)),
          .gradient_scale = static_cast<float>(scale)};
}

void Optimizer::update_factored(const GradientPart& gradient, Matrices matrices,
                                std::span<const double> scales) {
  if (weights_.plan().sharers(gradient.unit) > 1) return update_factored_together(gradient, matrices, scales);
  // Matrices go one after the other, so that memory holds the sums of one at a time.
  for (std::size_t i = 0; i < matrices.size(); ++i)
    update_factored_together(gradient, matrices.subspan(i, 1), scales.subspan(i, 1));
}

void Optimizer::update_factored_together(const GradientPart& gradient, Matrices matrices,
                                         std::span<const double> scales) {
  const auto t = static_cast<double>(step_);
  const double rho = std::pow(t, ops::kAdafactorDecay);
  std::vector<MatrixSums> places;
  std::size_t end = 0;
  for (const MatrixState& matrix : matrices) end = places.emplace_back(MatrixSums{end}).end(matrix.shape);

  std::vector<double> sums(end), update_squares(matrices.size());
  const auto for_each_owned = [&](const auto& visit) {
    for (std::size_t i = 0; i < matrices.size(); ++i)
      if (matrices[i].owned.count() > 0)
        visit(i, matrices[i], factored_run(gradient, matrices[i], scales[i]),
              formats_of(matrices[i], weights_type(matrices[i]), gradient.dtype));
  };
  const auto mean_row = [&](std::size_t i) {
    return sums[places[i].rows()] / static_cast<double>(matrices[i].shape.rows);
  };

  for_each_owned([&](std::size_t i, const MatrixState& matrix, const ops::FactoredRun& run,
                     const ops::UpdateFormats& formats) {
    std::vector<double> own(matrix.shape.is_vector() ? static_cast<std::size_t>(run.columns) : 0);
    double* columns = own.empty() ? sums.data() + places[i].columns() : own.data();
    const ops::FactoredSums found = ops::adafactor_sums(run, formats, rho, columns);
    sums[places[i].weight_squares()] = found.weight_squares;
    sums[places[i].rows()] = found.rows;
    if (!own.empty()) ops::adafactor_columns(run, rho, columns, 1);
  });
  sum_over_sharers(gradient.unit, sums);

  for_each_owned([&](std::size_t i, const MatrixState& matrix, const ops::FactoredRun& run,
                     const ops::UpdateFormats& formats) {
    if (!run.is_vector())
      ops::adafactor_columns(run, rho, sums.data() + places[i].columns(), matrix.shape.rows);
    update_squares[i] = ops::adafactor_update_squares(run, formats, mean_row(i));
  });
  sum_over_sharers(gradient.unit, update_squares);

  for_each_owned([&](std::size_t i, const MatrixState& matrix, const ops::FactoredRun& run,
                     const ops::UpdateFormats& formats) {
    const auto elements = static_cast<double>(matrix.shape.elements());
    const double weights_rms = std::sqrt(sums[places[i].weight_squares()] / elements);
    const double update_rms = std::sqrt(update_squares[i] / elements);
    const double rate = std::max(ops::kAdafactorEps2, weights_rms) * std::min(rate_, 1 / std::sqrt(t));
    ops::adafactor_update(run, formats, mean_row(i), matrix.decays ? 1 - rate_ * settings_.weight_decay : 1,
                          rate / std::max(1.0, update_rms / ops::kAdafactorD));
  });
}

}  // namespace sluice
