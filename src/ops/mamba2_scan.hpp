// Scan of Mamba-2: the recurrence of state space duality, https://arxiv.org/abs/2405.21060.
#pragma once

#include "ops/documents.hpp"

namespace sluice::ops {

/// Inputs of the scan. Head h uses group h / (heads / groups).
struct Mamba2Inputs {
  at::Tensor x;          ///< inputs of the heads [b, L, heads, p]
  at::Tensor b, c;       ///< what writes to the state, and what reads it [b, L, groups, n]
  at::Tensor log_decay;  ///< logarithm of the state's decay, at most 0: [b, L, heads] float32
  at::Tensor step;       ///< time step, the factor of what is written [b, L, heads] float32
  at::Tensor skip;       ///< factor of the input in the output [heads] float32
};

/// Scan of each head, with a state S [n, p] that is zero where a document begins:
///     S_t = e^log_decay_t S_(t-1) + step_t b_t x_t^T,   out_t = S_t^T c_t + skip x_t
/// Computed chunk by chunk in float32; the result is [b, L, heads, p] in x's dtype. Keeps its inputs and the
/// state before each chunk, b * heads * n * p floats per 64 tokens.
[[nodiscard]] at::Tensor mamba2_scan(const Mamba2Inputs& inputs, const Documents& documents = {});

/// mamba2_scan() of sequences that are continued from `state` [b, groups, n, heads / groups * p] float32
/// (zeros at first), which becomes the state after these tokens. Forward only, records no graph.
[[nodiscard]] at::Tensor continue_mamba2_scan(const Mamba2Inputs& inputs, at::Tensor& state);

}  // namespace sluice::ops
