// The loops between the products of attention, for vectors of any length: softmax weights from scores, and
// gradients of scores. A vector holds some queries of one key, so that no sum runs across a vector. Needs no
// LibTorch. Internal to src/ops.
#pragma once

#include "ops/arithmetic/exponential.hpp"
#include "ops/cpu/products/micro_kernel.hpp"

#include <cstdint>
#include <cstring>
#include <numbers>
#include <utility>

namespace sluice::ops::cpu::products {

/// Loops over vectors, of which a packed row of a right side has kVectors.
template <class Vectors, std::int64_t kVectors>
class ScoreLoops {
  using Vector = typename Vectors::Floats;
  using WordVector = typename Vectors::Words;
  static constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(float), kColumns = kLanes * kVectors;
  static_assert(kScoreQueries % kColumns == 0);

 public:
  SLUICE_ELEMENT static void join(const ScorePanels& scores, const RunningSoftmax& softmax, float* output,
                                  std::int64_t width) {
    for (std::int64_t query = 0; query < kScoreQueries; query += kLanes) {
      if (scores.seen == nullptr)
        join_vector<false>(scores, query, softmax, output, width);
      else
        join_vector<true>(scores, query, softmax, output, width);
    }
  }

  SLUICE_ELEMENT static void differentiate(const ScoreGradients& block) {
    for (std::int64_t query = 0; query < kScoreQueries; query += kLanes) {
      if (block.seen == nullptr)
        differentiate_vector<false>(block, query);
      else
        differentiate_vector<true>(block, query);
    }
  }

 private:
  SLUICE_ELEMENT static void read(const float* from, Vector& to) { std::memcpy(&to, from, sizeof to); }
  SLUICE_ELEMENT static void write(const Vector& from, float* to) { std::memcpy(to, &from, sizeof from); }

  /// Replaces x, which is positive by rounding only, by 2^x; 0 below -126.5, and NaN stays NaN.
  SLUICE_ELEMENT static void raise_two(Vector& x) {
    constexpr float kShift = 12582912.0F;  // Adding 1.5 * 2^23 puts the integer part into the low bits.
    constexpr std::uint32_t kMantissaBits = 23, kOne = 0x3f800000;
    x = x < -127.0F ? Vector{} - 127.0F : x;
    const Vector shifted = x + kShift;
    const Vector remainder = (x - (shifted - kShift)) * std::numbers::ln2_v<float>;
    WordVector words;
    std::memcpy(&words, &shifted, sizeof words);
    words = (words << kMantissaBits) + kOne;
    Vector power;
    std::memcpy(&power, &words, sizeof power);
    Vector factor;
    arithmetic::exponential_of_remainder(remainder, factor);
    x = factor * power;
  }

  /// Replaces the lanes of queries that do not attend to a key, from bit `query` of `seen` on.
  template <std::size_t... kLane>
  SLUICE_ELEMENT static void hide(std::uint32_t seen, std::int64_t query, float value, Vector& x,
                                  std::index_sequence<kLane...> /*lanes*/) {
    constexpr WordVector kBits = {1U << kLane...};
    const WordVector bits = (WordVector{} + (seen >> query)) & kBits;
    x = bits == kBits ? x : Vector{} + value;
  }
  template <bool kSome>
  SLUICE_ELEMENT static void hide_unseen(const std::uint32_t* seen, std::int64_t key, std::int64_t query,
                                         float value, Vector& x) {
    if constexpr (kSome) hide(seen[key], query, value, x, std::make_index_sequence<kLanes>());
  }

  /// Returns the larger numbers in `most`; NaN in x changes nothing.
  SLUICE_ELEMENT static void take_larger(const Vector& x, Vector& most) { most = x > most ? x : most; }

  /// Makes weights of the scores of kLanes queries, from `query` on.
  template <bool kSome>
  SLUICE_ELEMENT static void join_vector(const ScorePanels& scores, std::int64_t query,
                                         const RunningSoftmax& softmax, float* output, std::int64_t width) {
    constexpr std::int64_t kAtOnce = 4;  // Keys whose sums do not wait for one another.
    float* const first = scores.data + query / kColumns * kScoreKeys * kColumns + query % kColumns;
    Vector mosts[kAtOnce];
    for (Vector& most : mosts) most = Vector{} + kNoExponent;
    for (std::int64_t key = 0; key < scores.keys; key += kAtOnce)
      for (std::int64_t i = 0; i < kAtOnce; ++i) {
        float* const at = first + (key + i) * kColumns;
        Vector x;
        read(at, x);
        x *= scores.scale;
        write(x, at);  // Rounded: the largest exponent's weight is exactly 1.
        hide_unseen<kSome>(scores.seen, key + i, query, kNoExponent, x);
        take_larger(x, mosts[i]);
      }
    take_larger(mosts[1], mosts[0]);
    take_larger(mosts[3], mosts[2]);
    take_larger(mosts[2], mosts[0]);
    Vector before, largest = mosts[0];
    read(softmax.largest + query, before);
    take_larger(before, largest);
    Vector sums[kAtOnce] = {};
    for (std::int64_t key = 0; key < scores.keys; key += kAtOnce)
      for (std::int64_t i = 0; i < kAtOnce; ++i) {
        float* const at = first + (key + i) * kColumns;
        Vector x;
        read(at, x);
        x -= largest;
        raise_two(x);
        hide_unseen<kSome>(scores.seen, key + i, query, 0, x);
        sums[i] += x;
        write(x, at);
      }
    Vector factor = before - largest, sum;
    raise_two(factor);
    read(softmax.sums + query, sum);
    write(sum * factor + ((sums[0] + sums[1]) + (sums[2] + sums[3])), softmax.sums + query);
    write(largest, softmax.largest + query);
    if (std::memcmp(&before, &largest, sizeof before) != 0) scale_columns(output + query, width, factor);
  }

  SLUICE_ELEMENT static void scale_columns(float* columns, std::int64_t rows, const Vector& factor) {
    for (std::int64_t row = 0; row < rows; ++row, columns += kScoreQueries) {
      Vector x;
      read(columns, x);
      write(x * factor, columns);
    }
  }

  template <bool kSome>
  SLUICE_ELEMENT static void differentiate_vector(const ScoreGradients& block, std::int64_t query) {
    float* const by_query = block.by_query + query / kColumns * block.panel_distance + query % kColumns;
    Vector logsumexp, delta;
    read(block.logsumexp + query, logsumexp);
    read(block.delta + query, delta);
    for (std::int64_t key = 0; key < kScoreQueries; ++key) {
      float* const scores = block.scores + key * kLeftStride + query;
      float* const grads = block.grads + key * kLeftStride + query;
      Vector x, gradient;
      read(scores, x);
      read(grads, gradient);
      x = x * block.scale - logsumexp;
      raise_two(x);
      hide_unseen<kSome>(block.seen, key, query, 0, x);
      gradient = x * (gradient - delta);
      write(x, scores);
      write(gradient, grads);
      write(gradient, by_query + key * kColumns);
    }
  }
};

}  // namespace sluice::ops::cpu::products
