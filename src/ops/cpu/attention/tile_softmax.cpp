#include "ops/cpu/attention/tile_softmax.hpp"

#ifdef SLUICE_TILES

#include "ops/cpu/tiles/vectors.hpp"

#include <algorithm>
#include <cmath>

SLUICE_VECTORS_BEGIN

namespace sluice::ops::cpu::tiles {
namespace {

/// Computes 2^x by a polynomial for the fractional part, of least relative error over [0, 1).
SLUICE_TILES inline __m512 power_of_two(__m512 x) {
  constexpr int kDown = 0x9;  // Rounding mode: down, without exceptions.
  const __m512 r = _mm512_reduce_ps(x, kDown);
  __m512 p = _mm512_set1_ps(0.01353417F);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.05201146F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.24144276F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.69300383F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.00000259F));
  return _mm512_scalef_ps(p, x);
}

/// Rounds two vectors to bfloat16 and returns their 32 numbers in order.
SLUICE_TILES inline __m512i both_rounded(__m512 lower, __m512 upper) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(upper, lower));
}

/// Returns the mask of the 16 queries from `half` on.
__mmask16 half_of(std::uint32_t seen, std::int64_t half) { return static_cast<__mmask16>(seen >> half); }

/// Returns the largest score of each of 16 queries; with kSome, among the keys that the query attends to.
template <bool kSome>
SLUICE_TILES __m512 largest_of(const float* scores, std::int64_t keys, SeenBits seen, std::int64_t half,
                               float least) {
  __m512 even = _mm512_set1_ps(least);
  __m512 odd = even;
  for (std::int64_t key = 0; key < keys; key += 2) {
    const __m512 first = _mm512_load_ps(scores + key * kBlock + half);
    const __m512 second = _mm512_load_ps(scores + (key + 1) * kBlock + half);
    even =
        kSome ? _mm512_mask_max_ps(even, half_of(seen[key], half), even, first) : _mm512_max_ps(even, first);
    odd = kSome ? _mm512_mask_max_ps(odd, half_of(seen[key + 1], half), odd, second)
                : _mm512_max_ps(odd, second);
  }
  return _mm512_max_ps(even, odd);
}

/// Writes the softmax weights of 16 queries as rows of right tiles; returns their sums.
template <bool kSome>
SLUICE_TILES __m512 weigh(const float* scores, std::int64_t keys, SeenBits seen, std::int64_t half,
                          float scale, __m512 largest, Tile* target) {
  const __m512 factor = _mm512_set1_ps(scale);
  __m512 even_sum = _mm512_setzero_ps();
  __m512 odd_sum = _mm512_setzero_ps();
  std::uint16_t* row = target->numbers.data();
  for (std::int64_t key = 0; key < keys; key += 2, row += kDepth) {
    const float* pair = scores + key * kBlock + half;
    __m512 even = power_of_two(_mm512_fmsub_ps(_mm512_load_ps(pair), factor, largest));
    __m512 odd = power_of_two(_mm512_fmsub_ps(_mm512_load_ps(pair + kBlock), factor, largest));
    if constexpr (kSome) {
      even = _mm512_maskz_mov_ps(half_of(seen[key], half), even);
      odd = _mm512_maskz_mov_ps(half_of(seen[key + 1], half), odd);
    }
    even_sum = _mm512_add_ps(even_sum, even);
    odd_sum = _mm512_add_ps(odd_sum, odd);
    _mm512_store_si512(row, side_by_side(both_rounded(even, odd)));
  }
  return _mm512_add_ps(even_sum, odd_sum);
}

/// Multiplies 16 columns by `factor`, in rows of 32 numbers.
SLUICE_TILES void scale_columns(float* columns, std::int64_t rows, __m512 factor) {
  for (std::int64_t i = 0; i < rows; ++i, columns += kBlock)
    _mm512_store_ps(columns, _mm512_mul_ps(_mm512_load_ps(columns), factor));
}

/// Returns bfloat16 numbers as float32, with zeros where the mask is unset.
SLUICE_TILES inline __m512 widened(const std::uint16_t* numbers, __mmask16 mask) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, numbers)), 16));
}

/// Values of one key for 16 queries: probabilities, and gradients of the scores.
struct Gradients {
  __m512 weights, scores;
};

template <bool kSome>
SLUICE_TILES inline Gradients gradients_at(const KeyBlock& block, std::int64_t at, std::int64_t query,
                                           const QueryTerms& terms, std::uint32_t seen, float scale) {
  const __m512 exponent = _mm512_fmsub_ps(_mm512_load_ps(block.scores.data() + at + query),
                                          _mm512_set1_ps(scale), _mm512_loadu_ps(terms.logsumexp + query));
  __m512 weights = power_of_two(exponent);
  if constexpr (kSome) weights = _mm512_maskz_mov_ps(half_of(seen, query), weights);
  const __m512 grads =
      _mm512_sub_ps(_mm512_load_ps(block.grads.data() + at + query), _mm512_loadu_ps(terms.delta + query));
  return {weights, _mm512_mul_ps(weights, grads)};
}

/// Writes one key of 32 queries as a row of left tiles; returns the gradients.
template <bool kSome>
SLUICE_TILES inline __m512i gradient_row(const KeyBlock& block, std::int64_t key, const QueryTerms& terms,
                                         std::uint32_t seen, float scale, const BlockTiles& weights,
                                         const BlockTiles& keys) {
  const Gradients lower = gradients_at<kSome>(block, key * kBlock, 0, terms, seen, scale);
  const Gradients upper = gradients_at<kSome>(block, key * kBlock, kLines, terms, seen, scale);
  const std::int64_t row = key % kLines * kDepth;
  const __m512i grads = both_rounded(lower.scores, upper.scores);
  _mm512_store_si512((key < kLines ? weights.lower : weights.upper)->numbers.data() + row,
                     both_rounded(lower.weights, upper.weights));
  _mm512_store_si512((key < kLines ? keys.lower : keys.upper)->numbers.data() + row, grads);
  return grads;
}

template <bool kSome>
SLUICE_TILES void all_gradients(const KeyBlock& block, const QueryTerms& terms, SeenBits seen, float scale,
                                const BlockTiles& weights, const BlockTiles& keys,
                                const BlockTiles& queries) {
  for (std::int64_t key = 0; key < kBlock; key += 2) {
    const __m512i even = gradient_row<kSome>(block, key, terms, kSome ? seen[key] : 0, scale, weights, keys);
    const __m512i odd =
        gradient_row<kSome>(block, key + 1, terms, kSome ? seen[key + 1] : 0, scale, weights, keys);
    const Pairs pairs = pairs_of(even, odd);
    _mm512_store_si512(queries.lower->numbers.data() + key / 2 * kDepth, pairs.lower);
    _mm512_store_si512(queries.upper->numbers.data() + key / 2 * kDepth, pairs.upper);
  }
}

}  // namespace

SLUICE_TILES void RunningPowers::join(const PanelScores& scores, std::int64_t keys, SeenBits seen,
                                      float scale, PanelWeights& weights, float* output, std::int64_t width) {
  const float* all = scores.values.data();
  for (std::int64_t half = 0; half < kBlock; half += kLines) {
    const __m512 found = seen == nullptr ? largest_of<false>(all, keys, seen, half, kNothing)
                                         : largest_of<true>(all, keys, seen, half, kNothing);
    const __m512 before = _mm512_load_ps(largest_.data() + half);
    const __m512 after = _mm512_max_ps(before, _mm512_mul_ps(found, _mm512_set1_ps(scale)));
    Tile* const target = weights.data() + half / kLines * (kPanelKeys / kDepth);
    const __m512 added = seen == nullptr ? weigh<false>(all, keys, seen, half, scale, after, target)
                                         : weigh<true>(all, keys, seen, half, scale, after, target);
    const __m512 factor = power_of_two(_mm512_sub_ps(before, after));
    _mm512_store_ps(sums_.data() + half, _mm512_fmadd_ps(_mm512_load_ps(sums_.data() + half), factor, added));
    _mm512_store_ps(largest_.data() + half, after);
    if (_mm512_cmp_ps_mask(before, after, _CMP_NEQ_UQ) != 0) scale_columns(output + half, width, factor);
  }
}

SLUICE_TILES void RunningPowers::finish(float* output, std::int64_t width) const {
  for (std::int64_t half = 0; half < kBlock; half += kLines)
    scale_columns(output + half, width,
                  _mm512_div_ps(_mm512_set1_ps(1), _mm512_load_ps(sums_.data() + half)));
}

float RunningPowers::logsumexp(std::int64_t query) const {
  const auto i = static_cast<std::size_t>(query);
  return largest_[i] + std::log2(sums_[i]);
}

void gradients_of(const KeyBlock& block, const QueryTerms& terms, SeenBits seen, float scale,
                  const BlockTiles& weights, const BlockTiles& keys, const BlockTiles& queries) {
  if (seen == nullptr)
    all_gradients<false>(block, terms, seen, scale, weights, keys, queries);
  else
    all_gradients<true>(block, terms, seen, scale, weights, keys, queries);
}

SLUICE_TILES void write_row(const float* row, std::int64_t width, float factor, std::uint16_t* target) {
  for (std::int64_t i = 0; i < width; i += kLines) {
    const auto mask = static_cast<__mmask16>(lowest_bits(width - i));
    const __m512 values = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, row + i), _mm512_set1_ps(factor));
    _mm256_mask_storeu_epi16(target + i, mask, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values)));
  }
}

SLUICE_TILES void write_columns(const float* columns, std::int64_t stride, std::int64_t count,
                                std::int64_t width, float factor, std::uint16_t* target,
                                std::int64_t target_stride) {
  for (std::int64_t i = 0; i < width; i += kLines) {
    for (std::int64_t first = 0; first < count; first += kLines) {
      __m512i square[kLines];
      for (std::int64_t r = 0; r < kLines; ++r)
        square[r] = _mm512_loadu_si512(columns + (i + r) * stride + first);
      transpose(square);
      for (std::int64_t r = 0; r < std::min(kLines, count - first); ++r)
        write_row(reinterpret_cast<const float*>(square + r), std::min(kLines, width - i), factor,
                  target + (first + r) * target_stride + i);
    }
  }
}

SLUICE_TILES float dot(const std::uint16_t* a, const std::uint16_t* b, std::int64_t width) {
  __m512 sum = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < width; i += kLines) {
    const auto mask = static_cast<__mmask16>(lowest_bits(width - i));
    sum = _mm512_fmadd_ps(widened(a + i, mask), widened(b + i, mask), sum);
  }
  return _mm512_reduce_add_ps(sum);
}

}  // namespace sluice::ops::cpu::tiles

SLUICE_VECTORS_END

#endif
