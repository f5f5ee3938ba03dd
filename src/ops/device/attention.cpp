// Attention by LibTorch's kernels, or by its formula for some queries at a time, because the scores of all
// queries would not fit.
#include "ops/device/cuda_library.hpp"
#include "ops/device/formulas.hpp"
#include "ops/device/processor.hpp"
#include "ops/device/single.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

namespace sluice::ops::device {
namespace {

constexpr std::int64_t kQueries = 512;
constexpr double kUnseen = -std::numeric_limits<double>::infinity();

/// Some sequences, with their heads grouped by the key head that they share.
class Heads {
 public:
  explicit Heads(const AttentionInputs& inputs)
      : inputs_(inputs),
        sequences_(inputs.q.size(0)),
        length_(inputs.q.size(1)),
        heads_(inputs.k.size(2)),
        group_(inputs.q.size(2) / heads_),
        width_(inputs.q.size(3)) {}

  /// Calls f(first query, queries) for all groups of queries.
  template <class F>
  void for_each_block(F f) const {
    for (std::int64_t begin = 0; begin < length_; begin += kQueries)
      f(begin, std::min(kQueries, length_ - begin));
  }
  /// Returns rows of some queries, or of any tensor shaped as them: [b, nkv, group * n, d].
  [[nodiscard]] at::Tensor rows(const at::Tensor& x, std::int64_t begin, std::int64_t n) const {
    return x.narrow(1, begin, n)
        .reshape({sequences_, n, heads_, group_, width_})
        .permute({0, 2, 3, 1, 4})
        .reshape({sequences_, heads_, group_ * n, width_});
  }
  /// Writes rows back into x; the inverse of rows().
  void put_rows(const at::Tensor& rows, std::int64_t begin, std::int64_t n, const at::Tensor& x) const {
    x.narrow(1, begin, n)
        .view({sequences_, n, heads_, group_, width_})
        .copy_(rows.view({sequences_, heads_, group_, n, width_}).permute({0, 3, 1, 2, 4}));
  }
  /// Returns the first n keys: [b, nkv, n, d].
  [[nodiscard]] static at::Tensor keys(const at::Tensor& x, std::int64_t n) {
    return x.narrow(1, 0, n).transpose(1, 2);
  }
  /// Returns one number for each query, from x [b, nq, L], for some queries: [b, nkv, group * n, 1].
  [[nodiscard]] at::Tensor numbers(const at::Tensor& x, std::int64_t begin, std::int64_t n) const {
    return x.narrow(2, begin, n).reshape({sequences_, heads_, group_ * n, 1});
  }
  void put_numbers(const at::Tensor& numbers, std::int64_t begin, std::int64_t n, const at::Tensor& x) const {
    x.narrow(2, begin, n).copy_(numbers.view({sequences_, heads_ * group_, n}));
  }
  /// Returns scaled scores of some queries against all keys up to the last of these queries, float32 [b, nkv,
  /// group * n, keys]; -infinity where a query does not attend to a key.
  [[nodiscard]] at::Tensor scores(const at::Tensor& queries, std::int64_t begin, std::int64_t n) const {
    const Documents& documents = inputs_.documents;
    const at::Tensor all =
        at::matmul(queries, keys(inputs_.k, begin + n).transpose(-1, -2)).to(at::kFloat).mul_(inputs_.scale);
    const at::Tensor key = at::arange(begin + n, all.options().dtype(at::kLong));
    const at::Tensor query = key.narrow(0, begin, n).unsqueeze(1);
    at::Tensor hidden = (key > query).unsqueeze(0);
    if (documents.packed())
      hidden = hidden.logical_or(key < documents.first.narrow(1, begin, n).unsqueeze(2));
    all.view({sequences_, heads_, group_, n, begin + n})
        .masked_fill_(hidden.unsqueeze(1).unsqueeze(1), kUnseen);
    return all;
  }

 private:
  const AttentionInputs& inputs_;
  std::int64_t sequences_, length_, heads_, group_, width_;
};

/// Turns results without sinks into results with sinks; the backward pass needs no more.
void join_sinks(const at::Tensor& sinks, const AttentionRecord& made) {
  const at::Tensor joint = at::logaddexp(made.logsumexp, sinks.unsqueeze(1));
  made.out.copy_(single(made.out) * (made.logsumexp - joint).exp_().transpose(1, 2).unsqueeze(-1));
  made.logsumexp.copy_(joint);
}

void add_sink_gradient(const at::Tensor& sinks, const AttentionRecord& made, const at::Tensor& d_out,
                       const at::Tensor& d_sinks) {
  const at::Tensor delta = (single(made.out) * single(d_out)).sum(-1).transpose(1, 2);
  d_sinks.sub_((sinks.unsqueeze(1) - made.logsumexp).exp_().mul_(delta).sum(at::IntArrayRef{0, 2}));
}

/// Returns the softmax of scores [heads, group, queries, keys] over the keys, and over the sinks [heads *
/// group] if there are any.
at::Tensor probs_of(const at::Tensor& scores, const at::Tensor& sinks) {
  if (!sinks.defined()) return scores.softmax(-1);
  const at::Tensor joined = at::cat(
      {scores, sinks.view({scores.size(0), scores.size(1), 1, 1}).expand({-1, -1, scores.size(2), 1})}, -1);
  return joined.softmax(-1).narrow(-1, 0, scores.size(-1));
}

}  // namespace

void formulas::attention(const AttentionInputs& inputs, const AttentionRecord& made) {
  const at::Tensor &q = inputs.q, &v = inputs.v;
  const Heads heads(inputs);
  heads.for_each_block([&](std::int64_t begin, std::int64_t n) {
    const at::Tensor scores = heads.scores(heads.rows(q, begin, n), begin, n);
    const at::Tensor sums = at::logsumexp(scores, -1, /*keepdim=*/true);
    const at::Tensor probs = (scores - sums).exp_().to(q.scalar_type());
    heads.put_rows(at::matmul(probs, Heads::keys(v, begin + n)), begin, n, made.out);
    heads.put_numbers(sums, begin, n, made.logsumexp);
  });
}

void formulas::attention_backward(const AttentionInputs& inputs, const AttentionRecord& made,
                                  const at::Tensor& d_out, const AttentionGradients& gradients) {
  const at::Tensor &q = inputs.q, &k = inputs.k, &v = inputs.v;
  const Heads heads(inputs);
  const at::Tensor d_k =
      at::zeros({k.size(0), k.size(2), k.size(1), k.size(3)}, k.options().dtype(at::kFloat));
  const at::Tensor d_v = at::zeros(d_k.sizes(), d_k.options());
  heads.for_each_block([&](std::int64_t begin, std::int64_t n) {
    const at::Tensor queries = heads.rows(q, begin, n), d_block = heads.rows(d_out, begin, n);
    const at::Tensor keys = Heads::keys(k, begin + n), values = Heads::keys(v, begin + n);
    const at::Tensor probs =
        (heads.scores(queries, begin, n) - heads.numbers(made.logsumexp, begin, n)).exp_();
    const at::Tensor delta =
        (d_block.to(at::kFloat) * heads.rows(made.out, begin, n).to(at::kFloat)).sum(-1, /*keepdim=*/true);
    const at::Tensor d_probs = at::matmul(d_block, values.transpose(-1, -2)).to(at::kFloat);
    const at::Tensor d_scores = ((d_probs - delta) * probs).mul_(inputs.scale).to(q.scalar_type());
    heads.put_rows(at::matmul(d_scores, keys), begin, n, gradients.q);
    d_k.narrow(2, 0, begin + n).add_(at::matmul(d_scores.transpose(-1, -2), queries));
    d_v.narrow(2, 0, begin + n).add_(at::matmul(probs.to(q.scalar_type()).transpose(-1, -2), d_block));
  });
  gradients.k.copy_(d_k.transpose(1, 2));
  gradients.v.copy_(d_v.transpose(1, 2));
}

void attention(const AttentionInputs& inputs, const AttentionRecord& made,
               std::int64_t /*first_query: rows before it may be anything, and cost little here*/) {
  if (!cuda_library::attention(inputs, made)) formulas::attention(inputs, made);
  if (inputs.sinks.defined()) join_sinks(inputs.sinks, made);
}

void attention_backward(const AttentionInputs& inputs, const AttentionRecord& made, const at::Tensor& d_out,
                        const AttentionGradients& gradients) {
  if (!cuda_library::attention_backward(inputs, made, d_out, gradients))
    formulas::attention_backward(inputs, made, d_out, gradients);
  if (gradients.sinks.defined()) add_sink_gradient(inputs.sinks, made, d_out, gradients.sinks);
}

void cached_attention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, double scale,
                      std::int64_t window, const at::Tensor& sinks, const at::Tensor& out) {
  const std::int64_t n = q.size(0), heads = keys.size(1), group = q.size(1) / heads, width = q.size(2);
  const at::Tensor rows = q.view({n, heads, group, width})
                              .permute({1, 2, 0, 3})
                              .reshape({heads, group * n, width})
                              .to(at::kFloat);
  const at::Tensor scores = at::matmul(rows, keys.permute({1, 2, 0}).to(at::kFloat))
                                .mul_(scale)
                                .view({heads, group, n, keys.size(0)});
  const at::Tensor key = at::arange(keys.size(0), q.options().dtype(at::kLong));
  const at::Tensor query = key.narrow(0, keys.size(0) - n, n).unsqueeze(1);
  at::Tensor hidden = key > query;
  if (window > 0) hidden = hidden.logical_or(key <= query - window);
  scores.masked_fill_(hidden, kUnseen);
  const at::Tensor probs = probs_of(scores, sinks).reshape({heads, group * n, keys.size(0)});
  const at::Tensor mixed = at::matmul(probs, values.transpose(0, 1).to(at::kFloat));
  out.view({n, heads, group, -1}).copy_(mixed.view({heads, group, n, -1}).permute({2, 0, 1, 3}));
}

}  // namespace sluice::ops::device
