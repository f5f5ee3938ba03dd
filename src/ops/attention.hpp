// Causal attention with grouped queries.
#pragma once

#include "ops/documents.hpp"
#include "ops/parameter.hpp"

#include <cstdint>
#include <utility>

namespace sluice::ops {

/// Results of attention() over a layer's inputs, kept from the first pass for a later one.
struct AttentionRecord {
  at::Tensor out;        ///< output [b, L, nq, d] of the first pass; undefined before it
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

/// Causal attention, softmax(scale * q k^T) v, for q [b, L, nq, d], k and v [b, L, nkv, d], where query heads
/// h * nq/nkv ... share head h of k and v; the result is [b, L, nq, d]. A token attends to itself and earlier
/// tokens of its document. Products are in the dtype, softmax in float32, as in transformers' eager
/// attention. Works in tiles of at most 512 queries (of the heads that share keys) by 512 keys, so that
/// scores stay in a core's cache; bfloat16 on processors with matrix tiles in tiles of 32 queries by some
/// hundred keys, with scores that are never rounded. Backward recomputes the scores from the record's
/// logsumexp. Tiles that no query of a block attends to are skipped, so packed documents cost no more than
/// separate ones, and windows cost what lies inside them. Fills `record`, if not null, on the first pass; a
/// later pass over the same inputs is for its graph alone, and computes nothing.
[[nodiscard]] at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const AttentionForm& form, const Documents& documents = {},
                                   AttentionRecord* record = nullptr);

}  // namespace sluice::ops
