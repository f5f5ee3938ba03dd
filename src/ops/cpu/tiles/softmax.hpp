// The loops between the products of attention on matrix tiles: from blocks of scores to the sides of the next
// products. Internal to src/ops.
//
// Scores are transposed, keys by queries, so that a vector register holds 16 queries and nothing is summed
// across one. Scaled by log2(e) they are exponents of 2; powers are right to 3e-6, a thousandth of what
// bfloat16 keeps of them.
#pragma once

#include "ops/cpu/tiles/layout.hpp"

#ifdef SLUICE_TILES

namespace sluice::ops::cpu::tiles {

/// Keys that 32 queries meet at a time: their scores stay in a core's first cache.
inline constexpr std::int64_t kPanelKeys = 128;

/// For each of some keys, a bit for each of 32 queries that attends to it.
using SeenBits = const std::uint32_t*;

/// Scores of up to kPanelKeys keys, for 32 queries each.
struct alignas(64) PanelScores {
  std::array<float, kPanelKeys * kBlock> values;
};

/// The right side that they become, whose lines are queries; of 16 queries the tiles follow each other.
using PanelWeights = std::array<Tile, kBlock / kLines * kPanelKeys / kDepth>;

/// A softmax of 32 queries over panels of keys, one after the other.
class alignas(64) RunningPowers {
 public:
  RunningPowers() = default;
  /// Starts each query's sum with one exponent of 2 that belongs to no key, such as a sink's.
  explicit RunningPowers(float exponent) : largest_(all(exponent)), sums_(all(1)) {}

  /// weights = 2^(scale * score - largest) of `keys` keys, which 32 divides; queries that do not see a key,
  /// by `seen` if it is not null, give it 0. `output`, [width, 32], is what was summed with the weights
  /// before and is brought down to the new largest.
  void join(const PanelScores& scores, std::int64_t keys, SeenBits seen, float scale, PanelWeights& weights,
            float* output, std::int64_t width);

  /// Divides output [width, 32] by the sums.
  void finish(float* output, std::int64_t width) const;

  /// log2 of the sum of 2^(scale * score).
  [[nodiscard]] float logsumexp(std::int64_t query) const;

 private:
  /// A score below all others, yet finite, so that differences are numbers.
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

/// Numbers of 32 queries that the backward pass needs.
struct QueryTerms {
  const float* logsumexp;  ///< logsumexp of each row, see RunningPowers::logsumexp()
  const float* delta;      ///< D of each row, the row sum of dO * O
};

/// Probabilities = 2^(scale * score - log sum) and gradients of the scaled scores = probability * (gradient -
/// dot): `weights` and `keys` get probabilities and gradients as a left side whose lines are keys, `queries`
/// gets the gradients as a right side whose lines are queries. Queries that do not see a key, by `seen` if it
/// is not null, give it 0.
void gradients_of(const KeyBlock& block, const QueryTerms& terms, SeenBits seen, float scale,
                  const BlockTiles& weights, const BlockTiles& keys, const BlockTiles& queries);

/// target [width] = factor * row [width], rounded to bfloat16.
void write_row(const float* row, std::int64_t width, float factor, std::uint16_t* target);

/// target [count, width], rows `target_stride` apart, = factor * columns [width, count], rows `stride` apart
/// and readable up to multiples of 16; rounded to bfloat16.
void write_columns(const float* columns, std::int64_t stride, std::int64_t count, std::int64_t width,
                   float factor, std::uint16_t* target, std::int64_t target_stride);

/// The sum of a * b over `width` numbers of bfloat16.
[[nodiscard]] float dot(const std::uint16_t* a, const std::uint16_t* b, std::int64_t width);

}  // namespace sluice::ops::cpu::tiles

#endif
