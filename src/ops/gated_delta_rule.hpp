// Gated delta rule: the recurrence of linear attention with decay in Gated Delta Networks,
// https://arxiv.org/abs/2412.06464, and with a decay by channel in Kimi Linear, https://arxiv.org/abs/2510.26692.
#pragma once

#include "ops/documents.hpp"

namespace sluice::ops {

/// Inputs of the gated delta rule. Value head h uses key head h / (hv / hk).
struct DeltaRuleInputs {
  at::Tensor q, k;  ///< queries and keys [b, L, hk, dk], l2-normalised by the rule
  at::Tensor v;     ///< values [b, L, hv, dv]
  /// Logarithm of the decay, at most 0, float32: [b, L, hv], or of each channel of keys [b, L, hv, dk], which the
  /// processor alone computes.
  at::Tensor log_decay;
  at::Tensor beta;  ///< share of a key's old value that is replaced, in (0, 1): [b, L, hv]
};

/// Gated delta rule per value head, with a state S [dk, dv] that is zero where a document begins:
///     S_t = e^g_t S_(t-1) + beta_t k_t (v_t - (e^g_t S_(t-1))^T k_t)^T,   out_t = S_t^T q_t / sqrt(dk)
/// where a decay by channel is one for each row of S. Computed chunk by chunk in float32 as transformers'
/// torch_chunk_gated_delta_rule; the result is [b, L, hv, dv] in v's dtype. Keeps its inputs and the state before
/// each chunk, b * hv * dk * dv floats per 64 tokens; backward makes the graph of one chunk at a time, on a device
/// of eight.
[[nodiscard]] at::Tensor gated_delta_rule(const DeltaRuleInputs& inputs, const Documents& documents = {});

/// gated_delta_rule() of sequences that are continued from `state` [b, hv, dk, dv] float32 (zeros at first),
/// which becomes the state after these tokens. Forward only, records no graph.
[[nodiscard]] at::Tensor continue_gated_delta_rule(const DeltaRuleInputs& inputs, at::Tensor& state);

}  // namespace sluice::ops
