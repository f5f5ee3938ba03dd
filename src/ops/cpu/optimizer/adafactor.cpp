#include "base/round.hpp"
#include "ops/arithmetic/formats.hpp"
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

using optimizer::at_element;
using optimizer::kChunk;
using optimizer::OpenWeights;

/// Largest number of groups of rows that are summed separately; few, because each group has sums of all
/// columns.
constexpr std::int64_t kMaxGroups = 32;
/// Number of rows whose squares are summed in float32 before they are added to sums in float64.
constexpr std::int64_t kFloatRows = 64;

/// Calls visit(group, first row, end) for at most kMaxGroups groups of rows; the groups do not depend on the
/// number of threads.
void for_each_group(const FactoredRun& run,
                    const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit) {
  const std::int64_t rows = divide_up(std::max<std::int64_t>(run.rows, 1), kMaxGroups);
  at::parallel_for(0, divide_up(run.rows, rows), kernel::grain(rows * run.columns),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t group = begin; group < end; ++group)
                       visit(group, group * rows, std::min((group + 1) * rows, run.rows));
                   });
}

/// Consecutive elements of one row, at most kChunk.
struct RowChunk {
  /// `offset` is the index of the chunk's first element in the run.
  std::int64_t row, column, count, offset;
};

template <class Visit>
void for_each_chunk(const FactoredRun& run, std::int64_t row, Visit visit) {
  for (std::int64_t column = 0; column < run.columns; column += kChunk)
    visit(RowChunk{row, column, std::min(kChunk, run.columns - column), row * run.columns + column});
}

struct ChunkSquares {
  float gradient = 0, weights = 0;
};

// The loops below read gradients and plain weights where they lie, float32 or bfloat16: a conversion into a
// buffer first takes twice the time.

/// Calls f with a typed pointer to the gradients from element `offset` on.
template <class F>
void with_gradient(const FactoredRun& run, const UpdateFormats& formats, std::int64_t offset, F f) {
  if (formats.gradient == DType::kFloat32)
    f(at_element<float>(run.gradient, offset));
  else
    f(at_element<at::BFloat16>(run.gradient, offset));
}

/// Whether the weights have no further bits in master weights.
bool are_plain(const UpdateFormats& formats) {
  return formats.weights == DType::kBFloat16 && formats.master == MasterFormat::kNone;
}

/// Sums of squares in several accumulators, because one would wait for its own last addition; the gradient's
/// squares are also added to `columns`.
template <class Gradient, class Weight>
SLUICE_VECTOR_CLONES ChunkSquares chunk_squares(const Gradient* gradient, float scale, const Weight* weights,
                                                std::int64_t n, float* columns) {
  float sum = 0, weight_sum = 0;
#pragma omp simd reduction(+ : sum, weight_sum)
  for (std::int64_t i = 0; i < n; ++i) {
    const float value = kernel::load(gradient[i]) * scale, weight = kernel::load(weights[i]);
    columns[i] += value * value;
    sum += value * value;
    weight_sum += weight * weight;
  }
  return {sum, weight_sum};
}

/// Upper bound of 1 / sqrt(V), which is row_root * column_roots[i]: 1 / eps1.
constexpr float kMaxInverse = static_cast<float>(1 / kAdafactorEps1);

/// Returns the update of an element, before the rate multiplies it.
SLUICE_ELEMENT float update_of(float gradient, float row_root, float column_root) {
  const float inverse = row_root * column_root;
  return gradient * (inverse < kMaxInverse ? inverse : kMaxInverse);
}

template <class Gradient>
SLUICE_VECTOR_CLONES float chunk_update_squares(const Gradient* gradient, float scale, float row_root,
                                                const float* column_roots, std::int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) {
    const float u = update_of(kernel::load(gradient[i]) * scale, row_root, column_roots[i]);
    sum += u * u;
  }
  return sum;
}

/// Constants of the update of a row's chunk.
struct ChunkUpdate {
  float scale, row_root, decay, rate;

  [[nodiscard]] SLUICE_ELEMENT float updated(float weight, float gradient, float column_root) const {
    return weight * decay - rate * update_of(gradient * scale, row_root, column_root);
  }
};

template <class Gradient>
SLUICE_VECTOR_CLONES void chunk_update(float* weights, const Gradient* gradient, const float* column_roots,
                                       std::int64_t n, const ChunkUpdate& update) {
  const ChunkUpdate by = update;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    weights[i] = by.updated(weights[i], kernel::load(gradient[i]), column_roots[i]);
  }
}

/// Updates plain bfloat16 weights, rounded stochastically with the low half of each draw.
template <class Gradient>
SLUICE_VECTOR_CLONES void chunk_update(std::uint16_t* weights, const std::uint32_t* draws,
                                       const Gradient* gradient, const float* column_roots, std::int64_t n,
                                       const ChunkUpdate& update) {
  const ChunkUpdate by = update;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float weight = arithmetic::float_of_bfloat16(weights[i]);
    weights[i] =
        arithmetic::rounded_weight(by.updated(weight, kernel::load(gradient[i]), column_roots[i]), draws[i]);
  }
}

/// The row and column factors of 1 / sqrt(V).
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

/// Sums of a group of rows: squares of the gradient by column and in total, and squares of the weights.
struct GroupSums {
  std::vector<double> columns;
  FactoredSums sums;
};

ChunkSquares squares_of(const FactoredRun& run, const UpdateFormats& formats, const RowChunk& chunk,
                        float* columns) {
  ChunkSquares sums;
  with_gradient(run, formats, chunk.offset, [&](const auto* gradient) {
    if (are_plain(formats)) {
      const auto* weights = at_element<at::BFloat16>(run.weights, chunk.offset);
      sums = chunk_squares(gradient, run.gradient_scale, weights, chunk.count, columns);
    } else {
      OpenWeights weights(run.weights, run.master, formats, chunk.offset, chunk.count);
      sums = chunk_squares(gradient, run.gradient_scale, weights.data(), chunk.count, columns);
    }
  });
  return sums;
}

GroupSums sums_of(const FactoredRun& run, const UpdateFormats& formats, double rho, std::int64_t first,
                  std::int64_t end) {
  const auto width = static_cast<std::size_t>(run.columns);
  GroupSums out{std::vector<double>(width), {}};
  std::vector<float> partial(width);
  for (std::int64_t row = first; row < end; ++row) {
    double squares = 0;
    for_each_chunk(run, row, [&](const RowChunk& chunk) {
      const ChunkSquares sums = squares_of(run, formats, chunk, partial.data() + chunk.column);
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

void update_chunk(const FactoredRun& run, const UpdateFormats& formats, const RowChunk& chunk,
                  const float* column_roots, const ChunkUpdate& by) {
  alignas(64) optimizer::Draws draws;
  const auto draw = [&] { optimizer::draw(run.draws, run.begin + chunk.offset, chunk.count, draws.data()); };
  with_gradient(run, formats, chunk.offset, [&](const auto* gradient) {
    if (are_plain(formats)) {
      draw();
      return chunk_update(at_element<std::uint16_t>(run.weights, chunk.offset), draws.data(), gradient,
                          column_roots, chunk.count, by);
    }
    OpenWeights weights(run.weights, run.master, formats, chunk.offset, chunk.count);
    chunk_update(weights.data(), gradient, column_roots, chunk.count, by);
    if (weights.draws()) draw();
    weights.save(draws.data());
  });
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
    double sum = 0;
    for (std::int64_t row = first; row < end; ++row)
      for_each_chunk(run, row, [&](const RowChunk& chunk) {
        with_gradient(run, formats, chunk.offset, [&](const auto* gradient) {
          sum += static_cast<double>(chunk_update_squares(gradient, run.gradient_scale, inverses.row(row),
                                                          inverses.columns(chunk.column), chunk.count));
        });
      });
    groups[static_cast<std::size_t>(group)] = sum;
  });
  return std::accumulate(groups.begin(), groups.end(), 0.0);
}

void adafactor_update(const FactoredRun& run, const UpdateFormats& formats, double mean_row, double decay,
                      double rate) {
  const Inverses inverses(run, mean_row);
  for_each_group(run, [&](std::int64_t, std::int64_t first, std::int64_t end) {
    for (std::int64_t row = first; row < end; ++row) {
      const ChunkUpdate by{run.gradient_scale, inverses.row(row), static_cast<float>(decay),
                           static_cast<float>(rate)};
      for_each_chunk(run, row, [&](const RowChunk& chunk) {
        update_chunk(run, formats, chunk, inverses.columns(chunk.column), by);
      });
    }
  });
}

}  // namespace sluice::ops::cpu
