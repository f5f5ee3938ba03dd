// Causal attention with grouped queries.
#pragma once

#include "ops/documents.hpp"
#include "ops/parameter.hpp"

#include <cstdint>
#include <utility>

namespace sluice::ops {

/// Results of attention() over a layer's inputs, kept from the first pass for a later one.
struct AttentionRecord {
  at::Tensor out;        ///< [b, L, nq, d]; undefined before the first pass
  at::Tensor logsumexp;  ///< [b, nq, L] float32: logsumexp of each query's scores
};

/// How queries meet keys.
struct AttentionForm {
  double scale = 1;
  std::int64_t window = 0;  ///< tokens that one sees, itself included; 0: all before it
  /// [nq]: a logit that takes part in the softmax of each head, without a value; undefined: none.
  Parameter sinks{};
};

/// Causal softmax(scale * q k^T) v for q [b, L, nq, d], k and v [b, L, nkv, d], where query heads h * nq/nkv
/// ... share head h of k and v: [b, L, nq, d]. A token sees itself and earlier ones of its document. Products
/// in the dtype, softmax in float32, as transformers' eager attention. Tile by tile of at most 512 queries
/// (of the heads that share keys) by 512 keys, so that no more scores exist than stay in a core's cache;
/// bfloat16 on processors with matrix tiles by 32 queries and some hundred keys, with scores that are never
/// rounded. Backward computes them again from the logarithm of each query's sum. Tiles that no query of a
/// block sees are left out, so that packed documents cost what they would cost alone, and windows what they
/// show. Fills `record`, if there is one, on the first pass; a later one over the same inputs is for its
/// graph alone, and computes nothing.
[[nodiscard]] at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const AttentionForm& form, const Documents& documents = {},
                                   AttentionRecord* record = nullptr);

}  // namespace sluice::ops
