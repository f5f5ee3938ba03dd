// The innermost loops of products on processors that multiply float32 alone, of bfloat16 matrices and of
// attention, for vectors of any length. A processor instantiates MicroKernel in a file of its own, compiled for its instructions; the
// recipe stands in src/ops/README.md. Needs no LibTorch. Internal to src/ops.
#pragma once

#include "ops/arithmetic/element.hpp"
#include "ops/arithmetic/formats.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

namespace sluice::ops::cpu::products {

/// Depth that is multiplied at a time: packed, a block of rows of that depth fits the nearest cache.
inline constexpr std::int64_t kDepth = 256;
/// Distance of the packed rows of a left side, in numbers; rows a power of two apart would share few places of
/// a cache.
inline constexpr std::int64_t kLeftStride = kDepth + 16;
/// Packers write whole blocks of up to this number of rows and columns, beyond those that they pack too.
inline constexpr std::int64_t kPackedAtOnce = 32;

/// bfloat16 numbers: `rows` rows of `columns` neighbours, `stride` numbers apart.
struct Halves {
  const std::uint16_t* data;
  std::int64_t rows, columns, stride;
};

/// Where a packer writes: rows `stride` apart, of runs of `length` numbers that begin `distance` apart.
struct Runs {
  std::int64_t stride, length, distance;
};

/// float32 numbers of which a product computes a block: rows `stride` apart, of `columns` numbers.
struct Sums {
  float* data;
  std::int64_t stride, columns;
  bool adds;  ///< Whether the product is added to the numbers that are there.
};

/// Number of queries, and of keys, in a block of scores of attention.
inline constexpr std::int64_t kScoreQueries = 32;
/// Largest number of keys whose scores a running softmax joins at a time.
inline constexpr std::int64_t kScoreKeys = 128;

/// Exponent below all others, but finite, so that differences are numbers: what a running softmax begins with.
inline constexpr float kNoExponent = -1e30F;

/// Scores of kScoreQueries queries against `keys` keys (a multiple of kScoreQueries), in panels of as many
/// queries as a product kernel has columns: [kScoreKeys, columns] each, which is a packed right side.
struct ScorePanels {
  float* data;
  std::int64_t keys;
  const std::uint32_t*
      seen;     ///< A word for each key, with a bit for each query that attends to it; null: all do.
  float scale;  ///< Factor that turns a score into an exponent of 2.
};

/// The softmax of kScoreQueries queries over the keys so far.
struct RunningSoftmax {
  float* largest;  ///< Largest exponent of each query.
  float* sums;     ///< Sum of 2^(exponent - largest) of each query.
};

/// Scores, and gradients of the probabilities, of kScoreQueries keys (rows, kLeftStride apart) and queries.
struct ScoreGradients {
  float *scores, *grads;
  float* by_query;              ///< Destination in panels of queries, whose rows are keys.
  std::int64_t panel_distance;  ///< Distance of two panels of `by_query`, in numbers.
  const float* logsumexp;       ///< log2 of the sum of 2^exponent over all keys, of each query.
  const float* delta;           ///< Dot product of each query's output and its gradient.
  const std::uint32_t* seen;    ///< As in ScorePanels.
  float scale;                  ///< As in ScorePanels.
};

/// The loops of one processor.
struct ProductKernel {
  std::string_view means;      ///< For messages: "on vectors of float32 (AVX2)".
  std::int64_t rows, columns;  ///< Size of the largest block of sums that stays in registers.
  /// Writes rows of `from` as rows of `to`.
  void (*widen)(const Halves& from, float* to, const Runs& runs);
  /// Writes rows of `from` as columns of `to`; a run is a multiple of kPackedAtOnce or of `columns` long.
  void (*widen_transposed)(const Halves& from, float* to, const Runs& runs);
  /// Rounds numbers to bfloat16.
  void (*round)(const float* from, std::int64_t count, std::uint16_t* to);
  /// Multiplies up to `rows` packed rows, kLeftStride apart, and a packed block of columns, [depth, columns].
  void (*multiply)(const float* left, std::int64_t rows, const float* right, std::int64_t depth,
                   const Sums& sums);
  /// Writes the transpose of `from`, whose rows are `stride` apart; rows and columns are multiples of 16.
  void (*transpose)(const float* from, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                    float* to, std::int64_t to_stride);
  /// Replaces scores by weights 2^(scale * score - largest), 0 where a query does not attend, and adds them to
  /// the softmax. Output [width, kScoreQueries] of earlier weights is scaled to the new largest exponents.
  void (*join)(const ScorePanels& scores, const RunningSoftmax& softmax, float* output, std::int64_t width);
  /// Replaces scores by probabilities p = 2^(scale * score - logsumexp), 0 where a query does not attend, and
  /// gradients by p (gradient - delta), which go to `by_query` too.
  void (*differentiate)(const ScoreGradients& block);
};

/// Vectors of 16, 32 and 64 bytes, and of as many numbers of two bytes.
struct Vectors16 {
  using Floats __attribute__((vector_size(16))) = float;
  using Words __attribute__((vector_size(16))) = std::uint32_t;
  using Shorts __attribute__((vector_size(8))) = std::uint16_t;
};
struct Vectors32 {
  using Floats __attribute__((vector_size(32))) = float;
  using Words __attribute__((vector_size(32))) = std::uint32_t;
  using Shorts __attribute__((vector_size(16))) = std::uint16_t;
};
struct Vectors64 {
  using Floats __attribute__((vector_size(64))) = float;
  using Words __attribute__((vector_size(64))) = std::uint32_t;
  using Shorts __attribute__((vector_size(32))) = std::uint16_t;
};

template <class Vectors, std::int64_t kVectors>
class ScoreLoops;  // score_loops.hpp

/// Loops with vectors of a length, whose blocks of sums have up to kRows rows of kVectors vectors.
template <class Vectors, std::int64_t kRows, std::int64_t kVectors>
class MicroKernel {
  using Vector = typename Vectors::Floats;
  using WordVector = typename Vectors::Words;
  using ShortVector = typename Vectors::Shorts;
  static constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(float);

 public:
  using Scores = ScoreLoops<Vectors, kVectors>;
  static constexpr std::int64_t kBlockRows = kRows, kColumns = kLanes * kVectors;

  SLUICE_ELEMENT static void widen(const Halves& from, float* to, const Runs& runs) {
    for (std::int64_t row = 0; row < from.rows; ++row) {
      const std::uint16_t* source = from.data + row * from.stride;
      float* target = to + row * runs.stride;
      for (std::int64_t left = from.columns; left > 0; left -= runs.length) {
        widen_run(source, std::min(left, runs.length), target);
        __builtin_prefetch(source + kRowsAhead * from.stride);
        source += runs.length;
        target += runs.distance;
      }
    }
  }

  SLUICE_ELEMENT static void widen_transposed(const Halves& from, float* to, const Runs& runs) {
    constexpr std::int64_t kPair = 2 * kLanes;
    for (std::int64_t row = 0; row < from.rows; row += kLanes) {
      const std::int64_t rows = std::min(kLanes, from.rows - row);
      const std::uint16_t* const source = from.data + row * from.stride;
      float* const target = to + row / runs.length * runs.distance + row % runs.length;
      std::int64_t column = 0;
      for (; column + kPair <= from.columns; column += kPair) {
        for (std::int64_t ahead = kLanes; ahead < 2 * kLanes; ++ahead)
          __builtin_prefetch(source + column + ahead * from.stride);
        transpose_block({source + column, rows, kPair, from.stride}, target + column * runs.stride,
                        runs.stride);
      }
      if (column == from.columns) continue;
      std::uint16_t last[kLanes * kPair] = {};
      for (std::int64_t i = 0; i < rows; ++i)
        std::copy_n(source + i * from.stride + column, from.columns - column, last + i * kPair);
      transpose_block({last, rows, kPair, kPair}, target + column * runs.stride, runs.stride);
    }
  }

  SLUICE_ELEMENT static void transpose(const float* from, std::int64_t rows, std::int64_t columns,
                                       std::int64_t stride, float* to, std::int64_t to_stride) {
    for (std::int64_t row = 0; row < rows; row += kLanes)
      for (std::int64_t column = 0; column < columns; column += kLanes) {
        WordVector square[kLanes];
        for (std::int64_t i = 0; i < kLanes; ++i)
          std::memcpy(&square[i], from + (row + i) * stride + column, sizeof square[i]);
        transpose(square);
        for (std::int64_t i = 0; i < kLanes; ++i)
          std::memcpy(to + (column + i) * to_stride + row, &square[i], sizeof square[i]);
      }
  }

  SLUICE_ELEMENT static void multiply(const float* left, std::int64_t rows, const float* right,
                                      std::int64_t depth, const Sums& sums) {
    multiply_some<kRows>(left, rows, right, depth, sums);
  }

 private:
  // Vectors are passed by reference: the calling convention of a vector by value depends on the enabled
  // instruction sets.

  /// Number of rows that are fetched from memory ahead.
  static constexpr std::int64_t kRowsAhead = 8;

  SLUICE_ELEMENT static void widen_run(const std::uint16_t* from, std::int64_t count, float* to) {
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      ShortVector halves;
      std::memcpy(&halves, from + i, sizeof halves);
      const WordVector words = __builtin_convertvector(halves, WordVector) << 16;
      std::memcpy(to + i, &words, sizeof words);
    }
    for (; i < count; ++i) {
      const std::uint32_t word = std::uint32_t{from[i]} << 16;
      std::memcpy(to + i, &word, sizeof word);
    }
  }

  /// Replaces a and b by the lower and upper halves of their lanes of 16 bytes, interleaved in runs of kRun
  /// words.
  template <std::int64_t kRun, std::size_t... kLane>
  SLUICE_ELEMENT static void interleave(WordVector& a, WordVector& b, std::index_sequence<kLane...>) {
    const auto place = [](std::int64_t lane, std::int64_t half) constexpr {
      const std::int64_t within = lane % 4;
      return within / kRun % 2 * kLanes + lane - within + within / (2 * kRun) * kRun + within % kRun +
             half * 2;
    };
    const WordVector first = a;
    a = __builtin_shufflevector(first, b, place(kLane, 0)...);
    b = __builtin_shufflevector(first, b, place(kLane, 1)...);
  }

  /// Exchanges the runs of kRun words at odd places of a with those at even places of b.
  template <std::int64_t kRun, std::size_t... kLane>
  SLUICE_ELEMENT static void exchange(WordVector& a, WordVector& b, std::index_sequence<kLane...>) {
    constexpr auto is_odd = [](std::int64_t lane) constexpr { return lane / kRun % 2 == 1; };
    const WordVector first = a;
    a = __builtin_shufflevector(first, b,
                                (is_odd(kLane) ? kLanes + static_cast<std::int64_t>(kLane) - kRun
                                               : static_cast<std::int64_t>(kLane))...);
    b = __builtin_shufflevector(first, b,
                                (is_odd(kLane) ? kLanes + static_cast<std::int64_t>(kLane)
                                               : static_cast<std::int64_t>(kLane) + kRun)...);
  }

  /// Transposes kLanes x kLanes words.
  SLUICE_ELEMENT static void transpose(WordVector (&rows)[kLanes]) {
    constexpr auto kAll = std::make_index_sequence<kLanes>();
    for (std::int64_t i = 0; i < kLanes; i += 2) interleave<1>(rows[i], rows[i + 1], kAll);
    for (std::int64_t i = 0; i < kLanes; i += 4) {
      interleave<2>(rows[i], rows[i + 2], kAll);
      interleave<2>(rows[i + 1], rows[i + 3], kAll);
      std::swap(rows[i + 1], rows[i + 2]);
    }
    if constexpr (kLanes > 4)
      for (std::int64_t i = 0; i < kLanes; ++i)
        if (i % 8 < 4) exchange<4>(rows[i], rows[i + 4], kAll);
    if constexpr (kLanes > 8)
      for (std::int64_t i = 0; i < kLanes / 2; ++i) exchange<8>(rows[i], rows[i + 8], kAll);
  }

  /// Writes the transpose of up to kLanes rows of 2 kLanes numbers, with zeros for rows that do not exist:
  /// words of two neighbours are transposed, then taken apart.
  SLUICE_ELEMENT static void transpose_block(const Halves& from, float* to, std::int64_t stride) {
    WordVector rows[kLanes];
    for (std::int64_t i = 0; i < kLanes; ++i) {
      if (i < from.rows)
        std::memcpy(&rows[i], from.data + i * from.stride, sizeof rows[i]);
      else
        rows[i] = WordVector{};
    }
    transpose(rows);
    for (std::int64_t i = 0; i < kLanes; ++i) {
      const WordVector even = rows[i] << 16, odd = rows[i] & 0xffff0000U;
      std::memcpy(to + 2 * i * stride, &even, sizeof even);
      std::memcpy(to + (2 * i + 1) * stride, &odd, sizeof odd);
    }
  }

  template <std::int64_t kCount>
  SLUICE_ELEMENT static void multiply_some(const float* left, std::int64_t rows, const float* right,
                                           std::int64_t depth, const Sums& sums) {
    if (rows == kCount)
      multiply_block(left, right, depth, sums, std::make_index_sequence<kCount * kVectors>(),
                     std::make_index_sequence<kVectors>());
    else if constexpr (kCount > 1)
      multiply_some<kCount - 1>(left, rows, right, depth, sums);
  }

  /// Computes kSum... sums, row by row, each a vector.
  template <std::size_t... kSum, std::size_t... kVector>
  SLUICE_ELEMENT static void multiply_block(const float* left, const float* right, std::int64_t depth,
                                            const Sums& sums, std::index_sequence<kSum...>,
                                            std::index_sequence<kVector...>) {
    Vector blocks[sizeof...(kSum)] = {};
    for (std::int64_t d = 0; d < depth; ++d, ++left, right += kColumns) {
      Vector columns[kVectors];
      (std::memcpy(&columns[kVector], right + kVector * kLanes, sizeof(Vector)), ...);
      ((blocks[kSum] += left[kSum / kVectors * kLeftStride] * columns[kSum % kVectors]), ...);
    }
    (write(blocks[kSum], {sums.data + kSum / kVectors * sums.stride + kSum % kVectors * kLanes, 0,
                          sums.columns - static_cast<std::int64_t>(kSum) % kVectors * kLanes, sums.adds}),
     ...);
  }

  /// Writes as many of a vector's numbers as the sums have columns.
  SLUICE_ELEMENT static void write(const Vector& vector, const Sums& sums) {
    if (sums.columns >= kLanes) {
      Vector there{};
      if (sums.adds) std::memcpy(&there, sums.data, sizeof there);
      there += vector;
      std::memcpy(sums.data, &there, sizeof there);
    } else {
      for (std::int64_t i = 0; i < sums.columns; ++i)
        sums.data[i] = (sums.adds ? sums.data[i] : 0.0F) + vector[i];
    }
  }
};

}  // namespace sluice::ops::cpu::products
