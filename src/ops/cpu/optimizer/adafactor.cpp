#include "base/round.hpp"
#include "ops/cpu/kernel.hpp"
#include "ops/cpu/optimizer/optimizer.hpp"
#include "ops/cpu/optimizer/weights.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

namespace sluice::ops::cpu {
namespace {

using optimizer::Floats;
using optimizer::kChunk;
using optimizer::OpenWeights;

/// Parts of a matrix that are summed apart; few, as each has sums of all columns.
constexpr std::int64_t kMaxGroups = 32;
/// Rows whose squares are summed in float32 before they are added to sums in float64.
constexpr std::int64_t kFloatRows = 64;

/// Calls visit(group, first row, end) for at most kMaxGroups groups of rows, which do not depend on the number of
/// threads.
void for_each_group(const FactoredRun& run,
                    const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit) {
  const std::int64_t rows = divide_up(std::max<std::int64_t>(run.rows, 1), kMaxGroups);
  at::parallel_for(0, divide_up(run.rows, rows), kernel::grain(rows * run.columns),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t group = begin; group < end; ++group)
                       visit(group, group * rows, std::min((group + 1) * rows, run.rows));
                   });
}

/// A piece of a row.
struct Piece {
  std::int64_t row, column, count, offset;  ///< offset: of its first element in the run
};

template <class Visit>
void for_each_piece(const FactoredRun& run, std::int64_t row, Visit visit) {
  for (std::int64_t column = 0; column < run.columns; column += kChunk)
    visit(Piece{row, column, std::min(kChunk, run.columns - column), row * run.columns + column});
}

struct PieceSquares {
  float gradient = 0, weights = 0;
};

/// Sums of squares, which would each wait for its own last addition; the gradient's are added to `columns`, too.
SLUICE_VECTOR_CLONES PieceSquares piece_squares(const float* gradient, float scale, const float* weights,
                                                std::int64_t n, float* columns) {
  float sum = 0, weight_sum = 0;
#pragma omp simd reduction(+ : sum, weight_sum)
  for (std::int64_t i = 0; i < n; ++i) {
    const float value = gradient[i] * scale;
    columns[i] += value * value;
    sum += value * value;
    weight_sum += weights[i] * weights[i];
  }
  return {sum, weight_sum};
}

/// 1 / sqrt(V) of a piece is row_root * column_roots[i], at most 1 / eps1.
constexpr float kMaxInverse = static_cast<float>(1 / kAdafactorEps1);

SLUICE_VECTOR_CLONES float piece_update_squares(const float* gradient, float scale, float row_root,
                                                const float* column_roots, std::int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) {
    const float inverse = row_root * column_roots[i];
    const float u = gradient[i] * scale * (inverse < kMaxInverse ? inverse : kMaxInverse);
    sum += u * u;
  }
  return sum;
}

SLUICE_VECTOR_CLONES void piece_update(float* weights, const float* gradient, float scale, float row_root,
                                       const float* column_roots, std::int64_t n, float decay, float rate) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float inverse = row_root * column_roots[i];
    const float u = gradient[i] * scale * (inverse < kMaxInverse ? inverse : kMaxInverse);
    weights[i] = weights[i] * decay - rate * u;
  }
}

/// What 1 / sqrt(V) is made of.
class Inverses {
 public:
  Inverses(const FactoredRun& run, double mean_row) : run_(run), mean_row_(mean_row) {
    columns_.reserve(static_cast<std::size_t>(run.columns));
    for (std::int64_t i = 0; i < run.columns; ++i) columns_.push_back(1 / std::sqrt(run.column[i]));
  }
  [[nodiscard]] float row(std::int64_t row) const {
    if (run_.is_vector()) return 1;
    const double least = std::max(mean_row_, kAdafactorEps1);
    return static_cast<float>(std::sqrt(least / static_cast<double>(run_.row[row])));
  }
  [[nodiscard]] const float* columns(std::int64_t first) const { return columns_.data() + first; }

 private:
  const FactoredRun& run_;
  double mean_row_;
  std::vector<float> columns_;
};

/// Squares of some rows by column and of all, and of their weights.
struct GroupSums {
  std::vector<double> columns;
  FactoredSums sums;
};

GroupSums sums_of(const FactoredRun& run, const UpdateFormats& formats, double rho, std::int64_t first,
                  std::int64_t end) {
  const auto width = static_cast<std::size_t>(run.columns);
  GroupSums out{std::vector<double>(width), {}};
  std::vector<float> partial(width);
  alignas(64) Floats buffer;
  for (std::int64_t row = first; row < end; ++row) {
    double squares = 0;
    for_each_piece(run, row, [&](const Piece& piece) {
      const float* gradient =
          optimizer::open_gradient(run.gradient, formats.gradient, piece.offset, piece.count, buffer);
      OpenWeights weights(run.weights, run.master, formats, piece.offset, piece.count);
      const PieceSquares sums = piece_squares(gradient, run.gradient_scale, weights.data(), piece.count,
                                              partial.data() + piece.column);
      squares += static_cast<double>(sums.gradient);
      out.sums.weight_squares += static_cast<double>(sums.weights);
    });
    if (!run.is_vector()) {
      const auto mean = static_cast<float>(squares / static_cast<double>(run.columns));
      run.row[row] += static_cast<float>(rho) * (mean - run.row[row]);
      out.sums.rows += static_cast<double>(run.row[row]);
    }
    if ((row - first) % kFloatRows != kFloatRows - 1 && row + 1 < end) continue;
    for (std::size_t i = 0; i < width; ++i)
      out.columns[i] += static_cast<double>(std::exchange(partial[i], 0.0F));
  }
  return out;
}

}  // namespace

FactoredSums adafactor_sums(const FactoredRun& run, const UpdateFormats& formats, double rho,
                            double* column_squares) {
  std::vector<GroupSums> groups(kMaxGroups);
  for_each_group(run, [&](std::int64_t group, std::int64_t first, std::int64_t end) {
    groups[static_cast<std::size_t>(group)] = sums_of(run, formats, rho, first, end);
  });
  FactoredSums sums;
  for (const GroupSums& group : groups) {
    sums.weight_squares += group.sums.weight_squares;
    sums.rows += group.sums.rows;
    for (std::size_t i = 0; i < group.columns.size(); ++i) column_squares[i] += group.columns[i];
  }
  return sums;
}

void adafactor_columns(const FactoredRun& run, double rho, const double* column_squares, std::int64_t rows) {
  for (std::int64_t i = 0; i < run.columns; ++i) {
    const auto mean = static_cast<float>(column_squares[i] / static_cast<double>(rows));
    run.column[i] += static_cast<float>(rho) * (mean - run.column[i]);
  }
}

double adafactor_update_squares(const FactoredRun& run, const UpdateFormats& formats, double mean_row) {
  const Inverses inverses(run, mean_row);
  std::vector<double> groups(kMaxGroups);
  for_each_group(run, [&](std::int64_t group, std::int64_t first, std::int64_t end) {
    alignas(64) Floats buffer;
    double sum = 0;
    for (std::int64_t row = first; row < end; ++row)
      for_each_piece(run, row, [&](const Piece& piece) {
        const float* gradient =
            optimizer::open_gradient(run.gradient, formats.gradient, piece.offset, piece.count, buffer);
        sum += static_cast<double>(piece_update_squares(gradient, run.gradient_scale, inverses.row(row),
                                                        inverses.columns(piece.column), piece.count));
      });
    groups[static_cast<std::size_t>(group)] = sum;
  });
  return std::accumulate(groups.begin(), groups.end(), 0.0);
}

void adafactor_update(const FactoredRun& run, const UpdateFormats& formats, double mean_row, double decay,
                      double rate) {
  const Inverses inverses(run, mean_row);
  for_each_group(run, [&](std::int64_t, std::int64_t first, std::int64_t end) {
    alignas(64) Floats buffer;
    alignas(64) optimizer::Draws draws;
    for (std::int64_t row = first; row < end; ++row)
      for_each_piece(run, row, [&](const Piece& piece) {
        const float* gradient =
            optimizer::open_gradient(run.gradient, formats.gradient, piece.offset, piece.count, buffer);
        OpenWeights weights(run.weights, run.master, formats, piece.offset, piece.count);
        piece_update(weights.data(), gradient, run.gradient_scale, inverses.row(row),
                     inverses.columns(piece.column), piece.count, static_cast<float>(decay),
                     static_cast<float>(rate));
        if (weights.draws()) optimizer::draw(run.draws, run.begin + piece.offset, piece.count, draws.data());
        weights.save(draws.data());
      });
  });
}

}  // namespace sluice::ops::cpu
