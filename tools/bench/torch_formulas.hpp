// The operations of src/ops as a model's author writes them: LibTorch's own operations, one after the other,
// with the roundings of transformers. What the fused ones are measured against.
#pragma once

#include "ops/buffers/optimizer.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::bench {

/// x [..., N], w [N].
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& w);

/// x [b, L, heads, d]; cos and sin [L, d / 2] in x's dtype.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

/// Weights [T, k] of the most probable experts of x [T, H] by w [E, H], divided by their sum.
at::Tensor route(const at::Tensor& x, const at::Tensor& w, std::int64_t experts_per_token);

/// x [T, H], weights [T, k], gate_up [E, 2I, H], down [E, H, I], chosen [T, k]: expert after expert.
at::Tensor experts(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& gate_up,
                   const at::Tensor& down, const at::Tensor& chosen);

/// q [b, L, nq, d], k and v [b, L, nkv, d]: all scores at once, and a mask. A token sees `window` tokens with itself, or all before
/// it if that is 0. `sinks` [nq], if defined, are a column more of the softmax, which has no value.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                     std::int64_t window = 0, const at::Tensor& sinks = {});

/// Sum over tokens, from all logits at once. hidden [T, H], w [V, H], targets [T].
at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& w, const at::Tensor& targets);

/// x [b, L, C], w [C, 1, K].
at::Tensor causal_conv_silu(const at::Tensor& x, const at::Tensor& w);

/// As mamba2_chunk_scan of transformers, of one group, for a length that chunks of 64 tokens divide. x
/// [b, L, heads, p], b and c [b, L, 1, n], log_decay and step [b, L, heads], skip [heads].
at::Tensor mamba2_scan(const at::Tensor& x, const at::Tensor& b, const at::Tensor& c,
                       const at::Tensor& log_decay, const at::Tensor& step, const at::Tensor& skip);

/// As torch_chunk_gated_delta_rule of transformers, for a length that chunks of 64 tokens divide. q, k
/// [b, L, hk, dk], v [b, L, hv, dv], log_decay and beta [b, L, hv].
at::Tensor gated_delta_rule(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& log_decay, const at::Tensor& beta);

/// As chunk_kimi_delta_attention of transformers, chunk by chunk; gated_delta_rule() with log_decay [b, L, hv, dk].
at::Tensor channel_delta_rule(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const at::Tensor& log_decay, const at::Tensor& beta);

/// What an AdamW step changes, float32 [n]; `weights` are the master values in bfloat16.
struct AdamWTensors {
  at::Tensor master, m, v, grad, weights;
};
void adamw_update(const AdamWTensors& tensors, const ops::AdamWStep& step, double gradient_scale);

}  // namespace sluice::bench
