#include "ops/cpu/attention/attention.hpp"

#include "ops/cpu/attention/score_tile.hpp"
#include "ops/cpu/kernel.hpp"
#include "ops/cpu/level.hpp"
#include "ops/cpu/matmul.hpp"
#include "ops/cpu/tiles/attention.hpp"
#include "ops/cpu/token_ids.hpp"

#include <ATen/ops/zeros.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace sluice::ops::cpu {
namespace {

/// Approximate number of queries and of keys in a tile of scores. With elements of 2 bytes, a tile and its
/// gradient stay in a core's second-level cache, and a product of two such sides costs far more than its
/// call.
constexpr std::int64_t kTileQueries = 512;
constexpr std::int64_t kTileKeys = 512;

/// Alignment of a tile's first key, which may lie before the document: tiles then have few different widths,
/// for each of which the matrix library compiles a kernel.
constexpr std::int64_t kKeyAlignment = 128;

/// Returns the number of positions in a block: enough that the heads that share keys fill a tile, few enough
/// that little of the diagonal tile lies in the future.
std::int64_t block_positions(std::int64_t group) {
  return std::clamp<std::int64_t>(kTileQueries / group / 16 * 16, 16, 256);
}

/// One head of keys of one sequence, and the query heads that share it.
struct SharedHead {
  std::int64_t head;
  std::int64_t group;
  const std::int64_t* document;  ///< Document of each position, see document_of().
  const float* sinks;            ///< Sinks of the query heads, [group], or null.

  /// Returns the queries at these positions.
  [[nodiscard]] HeadRows queries(std::int64_t begin, std::int64_t positions) const {
    return {head * group, group, begin, positions, document};
  }
  /// Returns all `length` keys.
  [[nodiscard]] HeadRows keys(std::int64_t length) const { return {head, 1, 0, length, document}; }
};

/// Calls f(block) for the queries of positions [first, length).
template <class F>
void for_each_block(const SharedHead& shared, std::int64_t first, std::int64_t length, F&& f) {
  const std::int64_t positions = block_positions(shared.group);
  for (std::int64_t begin = first; begin < length; begin += positions)
    f(shared.queries(begin, std::min(positions, length - begin)));
}

/// Calls f(first key, number of keys) for the tiles of keys that a query of the block may attend to.
template <class F>
void for_each_tile(const HeadRows& block, F&& f) {
  const std::int64_t end = block.begin + block.positions;
  const std::int64_t begin = first_seen(block.document, block.begin) / kKeyAlignment * kKeyAlignment;
  for (std::int64_t key = begin; key < end; key += kTileKeys) f(key, std::min(kTileKeys, end - key));
}

/// Tensors of one sequence: q and out [L, nq, d], k and v [L, nkv, d], logsumexp float32 [nq, L].
struct Sequence {
  at::Tensor q, k, v, out, logsumexp;

  /// Returns the first logsumexp of a block; the next head's begin L elements later.
  [[nodiscard]] float* logsumexp_of(const HeadRows& block) const {
    return logsumexp.data_ptr<float>() + block.head * logsumexp.size(1) + block.begin;
  }
};

/// The running softmax of a block, and the output that it scales.
class BlockSums {
 public:
  /// Starts from the sinks of the block's heads, or from none if `sinks` is null.
  BlockSums(const HeadRows& block, std::int64_t width, const float* sinks)
      : values_(static_cast<std::size_t>(3 * block.rows())),
        output_(at::zeros({block.rows(), width}, at::kFloat)) {
    const RunningSoftmax s = softmax();
    for (std::int64_t row = 0; row < block.rows(); ++row) {
      s.largest[row] = sinks == nullptr ? -HUGE_VALF : sinks[row / block.positions];
      s.sum[row] = sinks == nullptr ? 0.0F : 1.0F;
    }
  }
  [[nodiscard]] RunningSoftmax softmax() {
    const std::int64_t rows = output_.size(0);
    return {values_.data(), values_.data() + rows, values_.data() + 2 * rows};
  }
  /// Adds the product of e^score [rows, keys] and values [keys, width]; call after join_scores().
  void add(const at::Tensor& weights, const at::Tensor& values) {
    scale_and_add(output_, softmax().factor, cpu::matmul(weights, values));
  }
  void write(const Sequence& sequence, const HeadRows& block) {
    const RunningSoftmax s = softmax();
    float* logsumexp = sequence.logsumexp_of(block);
    for (std::int64_t row = 0; row < block.rows(); ++row) {
      logsumexp[row / block.positions * sequence.logsumexp.size(1) + row % block.positions] =
          s.largest[row] + std::log(s.sum[row]);
      s.factor[row] = 1.0F / s.sum[row];
    }
    put_rows(output_, s.factor, sequence.out, block);
  }

 private:
  std::vector<float> values_;
  at::Tensor output_;
};

void head_forward(const Sequence& sequence, const SharedHead& shared, double scale,
                  std::int64_t first_query) {
  const std::int64_t length = sequence.k.size(0);
  const at::Tensor k = take_rows(sequence.k, shared.keys(length));
  const at::Tensor v = take_rows(sequence.v, shared.keys(length));
  for_each_block(shared, first_query, length, [&](const HeadRows& block) {
    const at::Tensor queries = take_rows(sequence.q, block);
    BlockSums sums(block, k.size(1), shared.sinks);
    for_each_tile(block, [&](std::int64_t first_key, std::int64_t keys) {
      const at::Tensor scores = cpu::matmul(queries, k.narrow(0, first_key, keys).t());
      join_scores(scores, block, first_key, scale, sums.softmax());
      sums.add(scores, v.narrow(0, first_key, keys));
    });
    sums.write(sequence, block);
  });
}

/// Gradients of one sequence's inputs and of its output.
struct SequenceGradients {
  at::Tensor q, k, v, out;
};

/// A block in the backward pass: its rows, and the logsumexp and D of each row.
class BlockRows {
 public:
  BlockRows(const Sequence& sequence, const at::Tensor& d_out, const HeadRows& block)
      : queries(take_rows(sequence.q, block)),
        grads(take_rows(d_out, block)),
        logsumexp_(static_cast<std::size_t>(block.rows())),
        delta_(logsumexp_.size()) {
    row_dots(take_rows(sequence.out, block), grads, delta_.data());
    const float* from = sequence.logsumexp_of(block);
    for (std::int64_t head = 0; head < block.group; ++head)
      std::copy_n(from + head * sequence.logsumexp.size(1), block.positions,
                  logsumexp_.data() + head * block.positions);
  }
  [[nodiscard]] QueryRows rows() const { return {logsumexp_.data(), delta_.data()}; }

  at::Tensor queries;
  at::Tensor grads;

 private:
  std::vector<float> logsumexp_;
  std::vector<float> delta_;
};

/// Computes the probabilities again, with keys as rows: then only one of the products has a factor that is
/// not dense.
void head_backward(const Sequence& sequence, const SequenceGradients& d, const SharedHead& shared,
                   double scale) {
  const std::int64_t length = sequence.k.size(0);
  const at::Tensor k = take_rows(sequence.k, shared.keys(length));
  const at::Tensor v = take_rows(sequence.v, shared.keys(length));
  const at::Tensor d_k = at::zeros(k.sizes(), at::kFloat);
  const at::Tensor d_v = at::zeros(k.sizes(), at::kFloat);
  for_each_block(shared, 0, length, [&](const HeadRows& block) {
    const BlockRows rows(sequence, d.out, block);
    const at::Tensor d_q = at::zeros(rows.queries.sizes(), at::kFloat);
    for_each_tile(block, [&](std::int64_t first_key, std::int64_t n) {
      const at::Tensor keys = k.narrow(0, first_key, n);
      const at::Tensor weights = cpu::matmul(keys, rows.queries.t());
      const at::Tensor d_scores = cpu::matmul(v.narrow(0, first_key, n), rows.grads.t());
      score_gradients(weights, d_scores, block, first_key, scale, rows.rows());
      cpu::matmul(d_v.narrow(0, first_key, n), weights, rows.grads, Into::kAdd);
      cpu::matmul(d_k.narrow(0, first_key, n), d_scores, rows.queries, Into::kAdd);
      cpu::matmul(d_q, d_scores.t(), keys, Into::kAdd);
    });
    put_rows(d_q, nullptr, d.q, block);
  });
  put_rows(d_k, nullptr, d.k, shared.keys(length));
  put_rows(d_v, nullptr, d.v, shared.keys(length));
}

/// Returns the sum over queries of the sink's probability times a number of each query.
double sum_of_probs(float sink, float unit, const float* logsumexp, const std::vector<float>& numbers) {
  double sum = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    sum += static_cast<double>(kernel::exponential(sink - logsumexp[i] * unit) * numbers[i]);
  return sum;
}

bool fits_tiles(const at::Tensor& q) { return q.scalar_type() == at::kBFloat16 && has_tiles(); }

/// Calls f(index of the sequence, sequence, shared head).
template <class F>
void for_each_head(const AttentionInputs& of, const AttentionRecord& made, F&& f) {
  const std::int64_t heads = of.k.size(2), group = of.q.size(2) / heads;
  const float* const sinks = of.sinks.defined() ? of.sinks.data_ptr<float>() : nullptr;
  for (std::int64_t s = 0; s < of.k.size(0); ++s) {
    const Sequence sequence{of.q[s], of.k[s], of.v[s], made.out[s], made.logsumexp[s]};
    for (std::int64_t head = 0; head < heads; ++head)
      f(s, sequence,
        SharedHead{head, group, document_of(of.documents, s),
                   sinks == nullptr ? nullptr : sinks + head * group});
  }
}

/// Returns the tensors of a head in the form that matrix tiles take.
tiles::Heads tile_heads(const Sequence& s, const SharedHead& shared, double scale) {
  const std::int64_t width = s.k.size(2);
  const std::int64_t query = shared.head * shared.group;
  return {s.k.size(0),
          width,
          shared.group,
          s.q.size(1) * width,
          s.k.size(1) * width,
          kernel::bits(s.q) + query * width,
          kernel::bits(s.k) + shared.head * width,
          kernel::bits(s.v) + shared.head * width,
          shared.document,
          static_cast<float>(scale),
          s.logsumexp.data_ptr<float>() + query * s.logsumexp.size(1),
          shared.sinks};
}

TileAttention tile_forward(const Sequence& s, const SharedHead& shared, double scale,
                           std::int64_t first_query) {
  return {tile_heads(s, shared, scale), kernel::bits(s.out) + shared.head * shared.group * s.k.size(2),
          first_query};
}

TileGradients tile_backward(const Sequence& s, const SequenceGradients& d, const SharedHead& shared,
                            double scale) {
  const std::int64_t query = shared.head * shared.group * s.k.size(2);
  const std::int64_t key = shared.head * s.k.size(2);
  return {tile_heads(s, shared, scale), kernel::bits(s.out) + query, kernel::bits(d.out) + query,
          kernel::bits(d.q) + query,    kernel::bits(d.k) + key,     kernel::bits(d.v) + key};
}

/// Adds the gradient of each head's sink, from the gradient of its output.
void add_sink_gradients(const at::Tensor& sinks, const AttentionRecord& made, const at::Tensor& d_out,
                        const at::Tensor& d_sinks) {
  // Factor that turns logsumexp into a natural logarithm: tiles store it in base 2.
  const float unit = fits_tiles(made.out) ? std::numbers::ln2_v<float> : 1.0F;
  const std::int64_t sequences = made.out.size(0), length = made.out.size(1), heads = made.out.size(2);
  const auto add_head = [&](std::int64_t head, std::vector<float>& delta) {
    double sum = 0;
    for (std::int64_t s = 0; s < sequences; ++s) {
      row_dots(made.out[s].select(1, head), d_out[s].select(1, head), delta.data());
      sum += sum_of_probs(sinks.data_ptr<float>()[head], unit,
                          made.logsumexp.data_ptr<float>() + (s * heads + head) * length, delta);
    }
    d_sinks.data_ptr<float>()[head] -= static_cast<float>(sum);
  };
  at::parallel_for(0, heads, kernel::grain(sequences * length * made.out.size(3)),
                   [&](std::int64_t begin, std::int64_t end) {
                     std::vector<float> delta(static_cast<std::size_t>(length));
                     for (std::int64_t head = begin; head < end; ++head) add_head(head, delta);
                   });
}

}  // namespace

void attention(const AttentionInputs& inputs, const AttentionRecord& made, std::int64_t first_query) {
  std::vector<TileAttention> on_tiles;
  for_each_head(inputs, made, [&](std::int64_t, const Sequence& sequence, const SharedHead& shared) {
    if (fits_tiles(inputs.q))
      on_tiles.push_back(tile_forward(sequence, shared, inputs.scale, first_query));
    else
      head_forward(sequence, shared, inputs.scale, first_query);
  });
  if (!on_tiles.empty()) tile_attention(on_tiles);
}

void attention_backward(const AttentionInputs& inputs, const AttentionRecord& made, const at::Tensor& d_out,
                        const AttentionGradients& gradients) {
  std::vector<TileGradients> on_tiles;
  for_each_head(inputs, made, [&](std::int64_t s, const Sequence& sequence, const SharedHead& shared) {
    const SequenceGradients d{gradients.q[s], gradients.k[s], gradients.v[s], d_out[s]};
    if (fits_tiles(inputs.q))
      on_tiles.push_back(tile_backward(sequence, d, shared, inputs.scale));
    else
      head_backward(sequence, d, shared, inputs.scale);
  });
  if (!on_tiles.empty()) tile_attention_gradients(on_tiles);
  if (gradients.sinks.defined()) add_sink_gradients(inputs.sinks, made, d_out, gradients.sinks);
}

}  // namespace sluice::ops::cpu
