// Output head and cross-entropy as one operation, so that the logits of all tokens never exist at once.
#pragma once

#include "ops/adapters/lora.hpp"

#include <cstdint>

namespace sluice::ops {

/// Target of a token that adds nothing to loss or gradient: torch's ignore_index.
inline constexpr std::int64_t kNoTarget = -100;

/// Result of linear_cross_entropy().
struct CrossEntropy {
  at::Tensor losses;  ///< cross-entropy of each token in nats, not scaled, [T] float64; 0 without a target
  /// gradient of loss_scale * sum of losses, [T, H]; undefined with LossGradients::kNone
  at::Tensor d_hidden;
};

/// Whether a loss is computed with its gradients, for training, or without.
enum class LossGradients : std::uint8_t { kNone, kMade };

/// Cross-entropy of softmax(hidden [T, H] times the transpose of w [V, H]) against targets [T] (int64).
/// LossGradients::kMade also computes the gradient of loss_scale * sum of losses, and adds w's part to w.grad
/// (if defined). Logits are computed in tiles of at most 4 MiB; those of a group of tokens are kept until the
/// gradient if they take at most 16 MiB. Not a graph node: it is the end of forward and the beginning of
/// backward at once. The products of a LoRA adapter of w are part of the logits. Error(kBadData) for a target
/// outside [0, V) that is not kNoTarget.
[[nodiscard]] CrossEntropy linear_cross_entropy(const at::Tensor& hidden, const Weight& w,
                                                const at::Tensor& targets, double loss_scale,
                                                LossGradients gradients);

/// Logits: hidden [T, H] times the transpose of w [V, H], as float32 [T, V]; for dumps of a few tokens.
[[nodiscard]] at::Tensor logits(const at::Tensor& hidden, const Weight& w);

}  // namespace sluice::ops
