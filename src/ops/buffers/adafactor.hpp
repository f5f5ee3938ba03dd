// Updates with the row and column means of squared gradients in place of moments: the formulas of
// torch.optim.Adafactor (Shazeer and Stern 2018, arXiv 1804.04235), in pieces, since the sums over a matrix
// of which several ranks hold rows are theirs together.
//
//   with G the gradient [R, C], rho = t^-0.8, for step t = 1, 2, …:
//   row    += rho (mean of G^2 over columns - row)          adafactor_sums, each rank for its rows
//   column += rho (mean of G^2 over rows - column)          adafactor_columns, after the sums were added up
//   V       = row column / mean(row), at least eps1^2
//   U       = G / sqrt(V)                                   adafactor_update_squares: its sum of squares
//   W      -= rate U / max(1, rms(U) / d)                   adafactor_update
//   with rate = max(eps2, rms(W)) min(learning rate, 1 / sqrt(t))
//
// A tensor of one dimension keeps V itself.
#pragma once

#include "ops/buffers/optimizer.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice::ops {

/// Constants of torch.optim.Adafactor for float32 parameters.
inline constexpr double kAdafactorEps1 = 1.1920928955078125e-07, kAdafactorEps2 = 1e-3, kAdafactorD = 1,
                        kAdafactorDecay = -0.8;

/// Whole rows of one matrix, of which other ranks may hold more rows. All memory is the caller's.
struct FactoredRun {
  std::int64_t rows = 0;  ///< rows of the matrix that this rank holds
  std::int64_t columns = 0;
  std::int64_t begin = 0;   ///< place of the first element in the matrix
  std::uint64_t draws = 0;  ///< index of the first draw of stochastic rounding, see UpdateRun::draws
  std::byte* weights = nullptr;
  std::byte* master = nullptr;
  const std::byte* gradient = nullptr;
  float* row = nullptr;  ///< row state [rows]; null for a vector, which is one row
  /// column state [columns], over all rows of the matrix; for a vector its second moment
  float* column = nullptr;
  float gradient_scale = 1;

  [[nodiscard]] bool is_vector() const { return row == nullptr; }
};

/// Sums over this rank's rows, to be added up over all ranks.
struct FactoredSums {
  double weight_squares = 0;
  double rows = 0;  ///< sum of the elements of `row`
};

/// Updates the row state; adds the squares of the gradient to `column_squares` [columns]. A vector needs
/// nothing else. `rho` as in the formulas above.
[[nodiscard]] FactoredSums adafactor_sums(const FactoredRun& run, const UpdateFormats& formats, double rho,
                                          double* column_squares);

/// Updates the column state from the squares summed over all `rows` rows of the matrix.
void adafactor_columns(const FactoredRun& run, double rho, const double* column_squares, std::int64_t rows);

/// Sum of the squares of the update U. `mean_row`: mean of the row state over all rows of the matrix; ignored
/// for a vector.
[[nodiscard]] double adafactor_update_squares(const FactoredRun& run, const UpdateFormats& formats,
                                              double mean_row);

/// Updates the weights: W = W decay - rate U.
void adafactor_update(const FactoredRun& run, const UpdateFormats& formats, double mean_row, double decay,
                      double rate);

}  // namespace sluice::ops
