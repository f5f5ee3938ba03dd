// The loops between the products of attention on matrix tiles: from blocks of scores to the sides of the next
// products. Internal to src/ops.
//
// Scores are transposed, keys by queries, so that a vector register holds 16 queries and no sum runs across a
// register. Scores scaled by log2(e) are exponents of 2; powers have a relative error of 3e-6, a thousandth
// of the precision of bfloat16.
#pragma once

#include "ops/cpu/attention/heads.hpp"
#include "ops/cpu/tiles/layout.hpp"

#ifdef SLUICE_TILES

namespace sluice::ops::cpu::tiles {

using attention_blocks::kPanelKeys;
using attention_blocks::QueryTerms;
using attention_blocks::SeenBits;

/// Scores of up to kPanelKeys keys, for 32 queries each.
struct alignas(64) PanelScores {
  std::array<float, kPanelKeys * kBlock> values;
};

/// Softmax weights of a panel as the right side of a product, whose lines are queries; the tiles of 16
/// queries follow each other.
using PanelWeights = std::array<Tile, kBlock / kLines * kPanelKeys / kDepth>;

/// A running softmax of 32 queries over panels of keys.
class alignas(64) RunningPowers {
 public:
  RunningPowers() = default;
  /// Starts each query's sum with one exponent of 2 that belongs to no key, such as a sink's.
  explicit RunningPowers(float exponent) : largest_(all(exponent)), sums_(all(1)) {}

  /// Computes weights = 2^(scale * score - largest) of `keys` keys (a multiple of 32); the weight is 0 for a
  /// query that does not attend to a key, by `seen` if it is not null. `output` [width, 32] holds the sums
  /// with earlier weights, and is scaled to the new largest score.
  void join(const PanelScores& scores, std::int64_t keys, SeenBits seen, float scale, PanelWeights& weights,
            float* output, std::int64_t width);

  /// Divides output [width, 32] by the sums.
  void finish(float* output, std::int64_t width) const;

  /// Returns log2 of the sum of 2^(scale * score) of a query.
  [[nodiscard]] float logsumexp(std::int64_t query) const;

 private:
  /// A score below all others, but finite, so that differences are numbers.
  static constexpr float kNothing = -1e30F;
  using Queries = std::array<float, kBlock>;

  static constexpr Queries all(float value) {
    Queries values{};
    values.fill(value);
    return values;
  }

  Queries largest_ = all(kNothing);
  Queries sums_ = all(0);
};

/// Scores and gradients of probabilities of 32 keys, for 32 queries each.
struct alignas(64) KeyBlock {
  std::array<float, kBlock * kBlock> scores, grads;
};

/// Computes probabilities = 2^(scale * score - log sum) and gradients of the scaled scores = probability *
/// (gradient - dot). Writes probabilities to `weights` and gradients to `keys`, as left sides whose lines are
/// keys, and gradients to `queries`, as a right side whose lines are queries. Both are 0 for a query that
/// does not attend to a key, by `seen` if it is not null.
void gradients_of(const KeyBlock& block, const QueryTerms& terms, SeenBits seen, float scale,
                  const BlockTiles& weights, const BlockTiles& keys, const BlockTiles& queries);

/// Computes target [width] = factor * row [width], rounded to bfloat16.
void write_row(const float* row, std::int64_t width, float factor, std::uint16_t* target);

/// Computes target [count, width], rows `target_stride` apart, = factor * columns [width, count], rows
/// `stride` apart and readable up to multiples of 16; rounded to bfloat16.
void write_columns(const float* columns, std::int64_t stride, std::int64_t count, std::int64_t width,
                   float factor, std::uint16_t* target, std::int64_t target_stride);

/// Returns the dot product of a and b over `width` bfloat16 numbers.
[[nodiscard]] float dot(const std::uint16_t* a, const std::uint16_t* b, std::int64_t width);

}  // namespace sluice::ops::cpu::tiles

#endif
