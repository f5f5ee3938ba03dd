// The recurrence of linear attention with decay: Gated Delta Networks, https://arxiv.org/abs/2412.06464.
#pragma once

#include "ops/documents.hpp"

namespace sluice::ops {

/// Inputs of the recurrence. A value head h uses key head h / (hv / hk).
struct DeltaRuleInputs {
  at::Tensor q, k;       ///< [b, L, hk, dk]; both are l2-normalised here
  at::Tensor v;          ///< [b, L, hv, dv]
  at::Tensor log_decay;  ///< [b, L, hv] float32, not above 0
  at::Tensor beta;       ///< [b, L, hv], in (0, 1): how much of a key's old value is replaced
};

/// Per value head, with a state S [dk, dv] that is zero where a document begins:
///   S_t = e^g_t S_(t-1) + beta_t k_t (v_t - (e^g_t S_(t-1))^T k_t)^T,   out_t = S_t^T q_t / sqrt(dk)
/// computed chunk by chunk in float32 as transformers' torch_chunk_gated_delta_rule: [b, L, hv, dv] in v's
/// dtype. Keeps its inputs and the state before each chunk, b * hv * dk * dv floats for 64 tokens; backward
/// makes one chunk's graph at a time. On a device eight chunks at a time.
[[nodiscard]] at::Tensor gated_delta_rule(const DeltaRuleInputs& inputs, const Documents& documents = {});

/// gated_delta_rule() of sequences that go on from `state` [b, hv, dk, dv] float32 (zeros at first), which
/// becomes the state after them. Forward only, without a graph.
[[nodiscard]] at::Tensor continue_gated_delta_rule(const DeltaRuleInputs& inputs, at::Tensor& state);

}  // namespace sluice::ops
