#include "ops/cpu/attention/cached_attention.hpp"

#include "ops/cpu/kernel.hpp"
#include "ops/runtime/progress_hook.hpp"

#include <vector>

namespace sluice::ops::cpu {
namespace {

/// One head of keys and values of a sequence: a row for each token, `stride` elements apart.
template <class T>
struct KeyHead {
  const T* keys;
  const T* values;
  std::int64_t stride, width;
};

/// scores[t] = query times key t.
template <class T>
SLUICE_VECTOR_CLONES void find_scores(const T* query, const KeyHead<T>& head, std::int64_t tokens,
                                      float scale, float* scores) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    const T* key = head.keys + t * head.stride;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < head.width; ++i) sum += kernel::load(query[i]) * kernel::load(key[i]);
    scores[t] = sum * scale;
  }
}

/// scores[t] = e^(scores[t] - the largest); returns their sum.
SLUICE_VECTOR_CLONES float to_weights(float* scores, std::int64_t tokens) {
  const float largest = *std::max_element(scores, scores + tokens);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t t = 0; t < tokens; ++t) {
    scores[t] = kernel::exponential_below(scores[t] - largest);
    sum += scores[t];
  }
  return sum;
}

/// Queries [0, group) of one token over the first `tokens` keys. `scores` has room for as many, `mean` for a head's width.
template <class T>
void attend(const T* queries, std::int64_t group, const KeyHead<T>& head, std::int64_t tokens, float scale,
            float* scores, float* mean, T* out) {
  for (std::int64_t query = 0; query < group; ++query) {
    find_scores(queries + query * head.width, head, tokens, scale, scores);
    const float share = 1.0F / to_weights(scores, tokens);
    std::fill_n(mean, head.width, 0.0F);
    for (std::int64_t t = 0; t < tokens; ++t)
      kernel::add_row(head.values + t * head.stride, scores[t] * share, head.width, mean);
    kernel::store_row(mean, head.width, out + query * head.width);
  }
}

}  // namespace

void cached_attention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, double scale,
                      const at::Tensor& out) {
  const std::int64_t queries = q.size(0), heads = keys.size(1), width = q.size(2), tokens = keys.size(0);
  const std::int64_t group = q.size(1) / heads;
  kernel::dispatch(q, [&]<class T>(T) {
    at::parallel_for(
        0, queries * heads, kernel::grain(tokens * width), [&](std::int64_t begin, std::int64_t end) {
          std::vector<float> scores(static_cast<std::size_t>(tokens)), mean(static_cast<std::size_t>(width));
          for (std::int64_t item = begin; item < end; ++item) {
            const std::int64_t query = item / heads, head = item % heads;
            const KeyHead<T> over{keys.data_ptr<T>() + head * width, values.data_ptr<T>() + head * width,
                                  keys.stride(0), width};
            const std::int64_t first = (query * heads + head) * group * width;
            attend(q.data_ptr<T>() + first, group, over, tokens - queries + query + 1,
                   static_cast<float>(scale), scores.data(), mean.data(), out.data_ptr<T>() + first);
          }
        });
  });
  poll_progress();
}

}  // namespace sluice::ops::cpu
