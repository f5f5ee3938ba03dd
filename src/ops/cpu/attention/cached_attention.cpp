#include "ops/cpu/attention/cached_attention.hpp"

#include "ops/cpu/few_rows.hpp"
#include "ops/cpu/kernel.hpp"
#include "ops/cpu/lanes.hpp"
#include "ops/runtime/progress_hook.hpp"

#include <cstring>
#include <vector>

namespace sluice::ops::cpu {
namespace {

/// One head of keys or of values of a sequence: one row of `width` for each token, `stride` elements apart.
template <class T>
struct CachedHead {
  const T* rows;
  std::int64_t stride, width;
};

/// Turns scores into softmax weights: scores[t] = e^(scale * scores[t]) divided by the sum over all tokens
/// and e^sink; a sink of -infinity adds nothing.
SLUICE_VECTOR_CLONES void to_weights(float* scores, std::int64_t tokens, float scale, float sink) {
  const float among = sink / scale;  // The sink as an unscaled score.
  const float largest = std::max(among, *std::max_element(scores, scores + tokens));
  float sum = kernel::exponential_below((among - largest) * scale);
#pragma omp simd reduction(+ : sum)
  for (std::int64_t t = 0; t < tokens; ++t) {
    scores[t] = kernel::exponential_below((scores[t] - largest) * scale);
    sum += scores[t];
  }
  const float share = 1.0F / sum;
  for (std::int64_t t = 0; t < tokens; ++t) scores[t] *= share;
}

/// Computes means[q] = the sum over t of weights[q][t] times value t, for kQueries rows of `tokens` weights.
/// Computes kVectors times 16 numbers of each head, from `begin` on, which stay in registers while the values
/// are read.
template <class T, std::int64_t kQueries, std::int64_t kVectors>
SLUICE_VECTOR_CLONES void add_values(const CachedHead<T>& head, std::int64_t begin, std::int64_t tokens,
                                     const float* weights, float* means) {
  Lanes sums[kQueries][kVectors];
  for (auto& of_query : sums)
    for (Lanes& sum : of_query) sum = Lanes{};
  for (std::int64_t t = 0; t < tokens; ++t) {
    Lanes value[kVectors];
    for (std::int64_t v = 0; v < kVectors; ++v)
      read_lanes(head.rows + t * head.stride + begin + v * kLanes, value[v]);
    for (std::int64_t q = 0; q < kQueries; ++q)
      for (std::int64_t v = 0; v < kVectors; ++v) sums[q][v] += weights[q * tokens + t] * value[v];
  }
  for (std::int64_t q = 0; q < kQueries; ++q)
    std::memcpy(means + q * head.width + begin, sums[q], sizeof(Lanes) * kVectors);
}

/// Adds values weighted by probabilities, over the whole width of a head.
template <class T, std::int64_t kQueries>
void add_values(const CachedHead<T>& head, std::int64_t tokens, const float* weights, float* means) {
  std::int64_t begin = 0;
  for (; begin + 2 * kLanes <= head.width; begin += 2 * kLanes)
    add_values<T, kQueries, 2>(head, begin, tokens, weights, means);
  if (begin + kLanes <= head.width) {
    add_values<T, kQueries, 1>(head, begin, tokens, weights, means);
    begin += kLanes;
  }
  if (begin == head.width) return;
  for (std::int64_t q = 0; q < kQueries; ++q) {
    float* const mean = means + q * head.width;
    std::fill_n(mean + begin, head.width - begin, 0.0F);
    for (std::int64_t t = 0; t < tokens; ++t)
      kernel::add_row(head.rows + t * head.stride + begin, weights[q * tokens + t], head.width - begin,
                      mean + begin);
  }
}

/// Scratch memory for the queries of one token that share a head.
struct Scratch {
  Scratch(std::int64_t group, std::int64_t tokens, std::int64_t width)
      : scores(static_cast<std::size_t>(group * tokens)), means(static_cast<std::size_t>(group * width)) {}
  std::vector<float> scores, means;
};

/// Attention of queries [0, group) of one token, with their sinks if there are any, over the first `tokens`
/// keys.
template <class T>
void attend(const T* queries, std::int64_t group, const CachedHead<T>& keys, const CachedHead<T>& values,
            std::int64_t tokens, float scale, const float* sinks, Scratch& scratch, T* out) {
  float* const scores = scratch.scores.data();
  multiply_rows<T>({queries, group, keys.width}, {keys.rows, tokens, keys.stride}, keys.width, scores);
  for (std::int64_t query = 0; query < group; ++query)
    to_weights(scores + query * tokens, tokens, scale, sinks == nullptr ? -HUGE_VALF : sinks[query]);
  std::int64_t query = 0;
  const auto add = [&]<std::int64_t kQueries>() {
    add_values<T, kQueries>(values, tokens, scores + query * tokens,
                            scratch.means.data() + query * values.width);
    query += kQueries;
  };
  while (query + 4 <= group) add.template operator()<4>();
  if (query + 2 <= group) add.template operator()<2>();
  if (query < group) add.template operator()<1>();
  kernel::store_row(scratch.means.data(), group * values.width, out);
}

}  // namespace

void cached_attention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, double scale,
                      std::int64_t window, const at::Tensor& sinks, const at::Tensor& out) {
  const float* const all_sinks = sinks.defined() ? sinks.data_ptr<float>() : nullptr;
  const std::int64_t queries = q.size(0), heads = keys.size(1), width = q.size(2), tokens = keys.size(0);
  const std::int64_t group = q.size(1) / heads;
  kernel::dispatch(q, [&]<class T>(T) {
    at::parallel_for(
        0, queries * heads, kernel::grain(tokens * width), [&](std::int64_t begin, std::int64_t end) {
          Scratch scratch(group, tokens, values.size(2));
          for (std::int64_t item = begin; item < end; ++item) {
            const std::int64_t query = item / heads, head = item % heads;
            const std::int64_t end_key = tokens - queries + query + 1;
            const std::int64_t first_key = window == 0 ? 0 : std::max<std::int64_t>(0, end_key - window);
            const auto rows_of = [&](const at::Tensor& x) {
              return CachedHead<T>{x.data_ptr<T>() + first_key * x.stride(0) + head * x.size(2), x.stride(0),
                                   x.size(2)};
            };
            const std::int64_t first = (query * heads + head) * group;
            attend(q.data_ptr<T>() + first * width, group, rows_of(keys), rows_of(values),
                   end_key - first_key, static_cast<float>(scale),
                   all_sinks == nullptr ? nullptr : all_sinks + head * group, scratch,
                   out.data_ptr<T>() + first * values.size(2));
          }
        });
  });
  poll_progress();
}

}  // namespace sluice::ops::cpu
