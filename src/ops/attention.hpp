// Causal attention with grouped queries.
#pragma once

#include "ops/documents.hpp"
#include "ops/parameter.hpp"

#include <cstdint>
#include <utility>

namespace sluice::ops {

/// Results of attention() over a layer's inputs, kept from the first pass for a later one.
struct AttentionRecord {
  at::Tensor out;        ///< output [b, L, nq, max(d, e)] of the first pass; undefined before it
  at::Tensor logsumexp;  ///< logsumexp of each query's scores, [b, nq, L] float32
};

/// Form of attention: how queries meet keys.
struct AttentionForm {
  double scale = 1;
  std::int64_t window = 0;  ///< tokens that a token attends to, itself included; 0: all before it
  /// Attention sinks [nq]: for each head a logit that takes part in the softmax, but has no value; undefined:
  /// none.
  Parameter sinks{};
};

/// x [..., d] with its last dimension extended to `width` by zeros.
[[nodiscard]] at::Tensor padded(const at::Tensor& x, std::int64_t width);

/// Causal attention, softmax(scale * q k^T) v, for q [b, L, nq, d], k [b, L, nkv, d] and v [b, L, nkv, e], where query
/// heads h * nq/nkv ... share head h of k and v; the result is [b, L, nq, e]. It is computed at the larger of d and e,
/// to which zeros extend the other. A token attends to itself and earlier tokens of its document.
///
/// On a processor 32 queries of a head meet a panel of 128 keys, whose scores, float32 and
/// never rounded, stay in a core's cache; weights are rounded to bfloat16 where bfloat16 numbers are multiplied
/// (matrix tiles), and nowhere else. Backward recomputes the scores from the record's logsumexp. Blocks that no
/// query attends to are skipped, so packed documents cost no more than separate ones, and windows cost what lies
/// inside them.
///
/// Fills `record`, if not null, on the first pass; a later pass over the same inputs is for its graph alone, and computes nothing.
[[nodiscard]] at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const AttentionForm& form, const Documents& documents = {},
                                   AttentionRecord* record = nullptr);

}  // namespace sluice::ops
