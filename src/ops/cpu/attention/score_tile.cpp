#include "ops/cpu/attention/score_tile.hpp"

#include "base/range.hpp"
#include "ops/cpu/kernel.hpp"
#include "ops/cpu/token_ids.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

namespace sluice::ops::cpu {
namespace {

/// Calls f(row of the block, offset of that row in a sequence's heads [L, heads, d]).
template <class F>
void for_each_row(const at::Tensor& x, const HeadRows& block, F&& f) {
  const std::int64_t heads = x.size(1);
  const std::int64_t width = x.size(2);
  for (std::int64_t row = 0; row < block.rows(); ++row) {
    const std::int64_t position = block.begin + row % block.positions;
    f(row, (position * heads + block.head + row / block.positions) * width);
  }
}

template <class T>
SLUICE_VECTOR_CLONES void store_row(const float* row, float factor, T* out, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) out[i] = kernel::store<T>(row[i] * factor);
}

/// Computes the exponential of one number per row, without variants for other instruction sets: they would
/// gain nothing, and the bits are then the same on all processors.
__attribute__((noinline)) float exponential_of_row(float x) { return kernel::exponential(x); }

/// Adds the visible scores of one query to its softmax; returns the factor that scales earlier results.
/// Conversions have loops of their own, through float32 scratch: a loop over two element widths is slower.
template <class T>
SLUICE_VECTOR_CLONES float join_row(T* row, std::int64_t visible, float scale, float* scratch, float& largest,
                                    float& sum) {
  float most = largest;
#pragma omp simd reduction(max : most)
  for (std::int64_t j = 0; j < visible; ++j) {
    scratch[j] = kernel::load(row[j]) * scale;
    most = scratch[j] > most ? scratch[j] : most;
  }
  float added = 0;
#pragma omp simd reduction(+ : added)
  for (std::int64_t j = 0; j < visible; ++j) {
    scratch[j] = kernel::exponential_below(scratch[j] - most);
    added += scratch[j];
  }
  for (std::int64_t j = 0; j < visible; ++j) row[j] = kernel::store_result<T>(scratch[j]);
  const float factor = exponential_of_row(largest - most);
  sum = sum * factor + added;
  largest = most;
  return factor;
}

template <class T>
SLUICE_VECTOR_CLONES void add_scaled(float* sum, float factor, const T* row, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) sum[i] = sum[i] * factor + kernel::load(row[i]);
}

/// Handles one key against consecutive queries that attend to it.
template <class T>
SLUICE_VECTOR_CLONES void gradient_run(T* scores, T* grads, const float* logsumexp, const float* delta,
                                       std::int64_t count, float scale) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float p = kernel::exponential_below(kernel::load(scores[i]) * scale - logsumexp[i]);
    scores[i] = kernel::store_result<T>(p);
    grads[i] = kernel::store_result<T>(p * (kernel::load(grads[i]) - delta[i]) * scale);
  }
}

template <class T>
SLUICE_VECTOR_CLONES float dot(const T* a, const T* b, std::int64_t width) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) sum += kernel::load(a[i]) * kernel::load(b[i]);
  return sum;
}

/// Returns the keys that a query attends to, among n keys from `first_key` on, counted from `first_key`.
Range visible_keys(const HeadRows& block, std::int64_t row, std::int64_t first_key, std::int64_t n) {
  const std::int64_t position = block.begin + row % block.positions;
  const std::int64_t end = std::clamp<std::int64_t>(position + 1 - first_key, 0, n);
  return {std::clamp<std::int64_t>(first_seen(block.document, position) - first_key, 0, end), end};
}

/// Returns the positions of a block that attend to a key, counted from the block's first position. Documents
/// follow one another, so the positions are consecutive.
Range seeing_positions(const HeadRows& block, std::int64_t key) {
  const std::int64_t begin = std::clamp<std::int64_t>(key - block.begin, 0, block.positions);
  if (block.document == nullptr) return {begin, block.positions};
  const std::int64_t* first = block.document + block.begin;
  return {begin, std::upper_bound(first + begin, first + block.positions, key) - first};
}

/// Writes zeros to the elements of a row [0, length) outside the run.
template <class T>
void clear_outside(T* row, const Range& run, std::int64_t length) {
  std::fill(row, row + run.begin, kernel::store<T>(0.0F));
  std::fill(row + run.end, row + length, kernel::store<T>(0.0F));
}

template <class T>
void key_gradients(T* scores, T* grads, const HeadRows& block, std::int64_t key, float scale,
                   const QueryRows& queries) {
  const Range run = seeing_positions(block, key);
  for (std::int64_t first = 0; first < block.rows(); first += block.positions) {
    const std::int64_t begin = first + run.begin;
    gradient_run(scores + begin, grads + begin, queries.logsumexp + begin, queries.delta + begin,
                 run.end - run.begin, scale);
    clear_outside(scores + first, run, block.positions);
    clear_outside(grads + first, run, block.positions);
  }
}

}  // namespace

at::Tensor take_rows(const at::Tensor& x, const HeadRows& block) {
  const std::int64_t width = x.size(2);
  at::Tensor rows = at::empty({block.rows(), width}, x.options());
  kernel::dispatch(x, [&]<class T>(T) {
    for_each_row(x, block, [&](std::int64_t row, std::int64_t offset) {
      std::copy_n(x.data_ptr<T>() + offset, width, rows.data_ptr<T>() + row * width);
    });
  });
  return rows;
}

void put_rows(const at::Tensor& rows, const float* factors, const at::Tensor& x, const HeadRows& block) {
  const std::int64_t width = x.size(2);
  kernel::dispatch(x, [&]<class T>(T) {
    for_each_row(x, block, [&](std::int64_t row, std::int64_t offset) {
      store_row(rows.data_ptr<float>() + row * width, factors == nullptr ? 1.0F : factors[row],
                x.data_ptr<T>() + offset, width);
    });
  });
}

void join_scores(const at::Tensor& scores, const HeadRows& block, std::int64_t first_key, double scale,
                 const RunningSoftmax& softmax) {
  const std::int64_t n = scores.size(1);
  kernel::dispatch(scores, [&]<class T>(T) {
    T* data = scores.data_ptr<T>();
    at::parallel_for(0, scores.size(0), kernel::grain(n), [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch(static_cast<std::size_t>(n));
      for (std::int64_t row = begin; row < end; ++row) {
        const Range seen = visible_keys(block, row, first_key, n);
        softmax.factor[row] =
            seen.begin == seen.end
                ? 1.0F
                : join_row(data + row * n + seen.begin, seen.end - seen.begin, static_cast<float>(scale),
                           scratch.data(), softmax.largest[row], softmax.sum[row]);
        clear_outside(data + row * n, seen, n);
      }
    });
  });
}

void scale_and_add(const at::Tensor& sum, const float* factor, const at::Tensor& product) {
  const std::int64_t width = sum.size(1);
  kernel::dispatch(product, [&]<class T>(T) {
    for (std::int64_t row = 0; row < sum.size(0); ++row)
      add_scaled(sum.data_ptr<float>() + row * width, factor[row], product.data_ptr<T>() + row * width,
                 width);
  });
}

void score_gradients(const at::Tensor& scores, const at::Tensor& grads, const HeadRows& block,
                     std::int64_t first_key, double scale, const QueryRows& queries) {
  const std::int64_t rows = scores.size(1);
  kernel::dispatch(scores, [&]<class T>(T) {
    at::parallel_for(0, scores.size(0), kernel::grain(rows), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t key = begin; key < end; ++key)
        key_gradients(scores.data_ptr<T>() + key * rows, grads.data_ptr<T>() + key * rows, block,
                      first_key + key, static_cast<float>(scale), queries);
    });
  });
}

void row_dots(const at::Tensor& a, const at::Tensor& b, float* out) {
  const std::int64_t width = a.size(1);
  kernel::dispatch(a, [&]<class T>(T) {
    const kernel::Rows<T> left(a), right(b);
    for (std::int64_t row = 0; row < a.size(0); ++row) out[row] = dot(left[row], right[row], width);
  });
}

}  // namespace sluice::ops::cpu
