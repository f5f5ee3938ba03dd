// Output head and cross-entropy in one, so that the logits of all tokens never exist at once.
#pragma once

#include "ops/adapters/lora.hpp"

#include <cstdint>

namespace sluice::ops {

/// A target that is none: its token adds nothing to loss or gradient. The number is torch's ignore_index.
inline constexpr std::int64_t kNoTarget = -100;

/// Result of linear_cross_entropy().
struct CrossEntropy {
  at::Tensor losses;    ///< [T] float64: each token's cross-entropy in nats, not scaled; 0 without a target
  at::Tensor d_hidden;  ///< [T, H] gradient of loss_scale * sum of losses; undefined if none was wanted
};

/// Whether the loss is for training, with its gradients, or not.
enum class LossGradients : std::uint8_t { kNone, kMade };

/// Cross-entropy of softmax(hidden [T, H] times the transpose of w [V, H]) against targets [T] (int64). With
/// LossGradients::kMade it makes the gradient of loss_scale * sum of losses in the same call and adds w's
/// part to w.grad (if defined). Logits are made in tiles of at most 4 MiB; those of a group of tokens are
/// kept until the gradient where they take 16 MiB at most. Not a graph node: it is the end of forward and the
/// begin of backward at once. The products of a LoRA adapter of w are part of the logits. Error(kBadData) for
/// a target outside [0, V) but kNoTarget.
[[nodiscard]] CrossEntropy linear_cross_entropy(const at::Tensor& hidden, const Weight& w,
                                                const at::Tensor& targets, double loss_scale,
                                                LossGradients gradients);

/// hidden [T, H] times the transpose of w [V, H] as float32 [T, V]; for dumps of a few tokens.
[[nodiscard]] at::Tensor logits(const at::Tensor& hidden, const Weight& w);

}  // namespace sluice::ops
