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

/// Whole rows of one matrix, of which others may hold more; all of it the caller's.
struct FactoredRun {
  std::int64_t rows = 0;  ///< rows of the matrix that this rank has
  std::int64_t columns = 0;
  std::int64_t begin = 0;   ///< the first element's place in the matrix
  std::uint64_t draws = 0;  ///< index of the first draw of stochastic rounding, see UpdateRun::draws
  std::byte* weights = nullptr;
  std::byte* master = nullptr;
  const std::byte* gradient = nullptr;
  float* row = nullptr;     ///< [rows]; null for a vector, which is one row
  float* column = nullptr;  ///< [columns], over all rows of the matrix; for a vector its second moment
  float gradient_scale = 1;

  [[nodiscard]] bool is_vector() const { return row == nullptr; }
};

/// Sums over rows that are here, to be added up over all ranks.
struct FactoredSums {
  double weight_squares = 0;
  double rows = 0;  ///< sum of the elements of `row`
};

/// Updates `row`; adds the squares of the gradient to `column_squares` [columns]. Of a vector those are all
/// that is needed. `rho` as above.
[[nodiscard]] FactoredSums adafactor_sums(const FactoredRun& run, const UpdateFormats& formats, double rho,
                                          double* column_squares);

/// Updates `column` from the squares of all rows, `rows` many.
void adafactor_columns(const FactoredRun& run, double rho, const double* column_squares, std::int64_t rows);

/// Sum of the squares of the update U. `mean_row`: mean of `row` over all rows of the matrix; ignored for a
/// vector.
[[nodiscard]] double adafactor_update_squares(const FactoredRun& run, const UpdateFormats& formats,
                                              double mean_row);

/// W = W decay - rate U.
void adafactor_update(const FactoredRun& run, const UpdateFormats& formats, double mean_row, double decay,
                      double rate);

}  // namespace sluice::ops
