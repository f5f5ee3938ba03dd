// Output head and cross-entropy as one operation, so that the logits of all tokens never exist at once.
#pragma once

#include "ops/adapters/lora.hpp"
#include "ops/token_distribution.hpp"
#include "ops/vocabulary_exchange.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <variant>

namespace sluice::ops {

/// Target of a token that adds nothing to loss or gradient: torch's ignore_index.
inline constexpr std::int64_t kNoTarget = -100;

/// No gradient is wanted, only losses.
struct NoLossGradient {};

/// Coefficients [T] float64 that follow from the losses [T] of all tokens of a call.
using CoefficientsOfLosses = std::function<at::Tensor(const at::Tensor& losses)>;

/// Coefficient of each token's loss in the loss whose gradient is computed, the sum of coefficient * loss over
/// tokens: the same number for all, or one for each token.
using LossCoefficients = std::variant<NoLossGradient, double, CoefficientsOfLosses>;

/// The two parts of the losses of tokens with a teacher, [T] each.
struct TaughtLosses {
  at::Tensor own;        ///< cross-entropy of each token's target in nats, float64; 0 without a target
  at::Tensor teacher;    ///< cross-entropy against the teacher's distribution in nats, float64; 0 without one
  at::Tensor entropies;  ///< entropy of the teacher's distribution in nats, float64; 0 without one
  at::Tensor is_taught;  ///< whether the token has a distribution, bool
};

/// Result of linear_cross_entropy().
struct CrossEntropy {
  /// loss of each token in nats, [T] float64: the cross-entropy of its target, 0 without one, or as TeacherTokens has
  /// it
  at::Tensor losses;
  /// gradient of the sum of coefficient * loss, [T, H]; undefined with NoLossGradient
  at::Tensor d_hidden;
  /// whether the target is the most probable token, [T] bool, false without a target; undefined with coefficients
  at::Tensor greedy;
  TokenDistribution distribution{};      ///< the distribution asked for; undefined tensors if none is
  std::optional<TaughtLosses> taught{};  ///< parts of the losses, with a teacher
};

/// Cross-entropy of softmax(hidden [T, H] times the transpose of w [V, H]) against targets [T] (int64). With
/// coefficients also computes the gradient, and adds w's part to w.grad (if defined). Logits are computed in
/// tiles of at most 4 MiB, and again for the gradient unless they were kept: those of a group of tokens are if
/// they take at most 16 MiB, or those of all tokens where coefficients follow from all losses. Not a graph
/// node: it is the end of forward and the beginning of backward at once. The products of a LoRA adapter of w
/// are part of the logits. `beside`: what else is made of the same logits; a teacher's distributions are part of
/// the losses. Error(kBadData) for a target outside [0, V) that is not kNoTarget.
/// With a `vocabulary` exchange w has the rows of this rank alone, all ranks of the exchange take part, with the same
/// kinds of coefficients and of `beside`, and w.grad gets the part of all ranks' tokens; for DrawnTokens logits are
/// computed twice. `logit_cap`: bound c of the logits l, which become c tanh(l / c); 0 for none.
[[nodiscard]] CrossEntropy linear_cross_entropy(const at::Tensor& hidden, const Weight& w,
                                                const at::Tensor& targets,
                                                const LossCoefficients& coefficients,
                                                const BesideTargets& beside = {},
                                                VocabularyExchange* vocabulary = nullptr,
                                                float logit_cap = 0);

/// Logits: hidden [T, H] times the transpose of w [V, H], as float32 [T, V]; for a few tokens. `vocabulary` and
/// `logit_cap` as for linear_cross_entropy().
[[nodiscard]] at::Tensor logits(const at::Tensor& hidden, const Weight& w,
                                VocabularyExchange* vocabulary = nullptr, float logit_cap = 0);

}  // namespace sluice::ops
