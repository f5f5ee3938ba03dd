// Sampling of the next token from its logits: transformers' logits processors in their order, and a
// counter-based random draw.
#pragma once

#include "config/job_config.hpp"

#include <cstdint>
#include <span>

namespace sluice {

// Each function below takes the logits of all tokens; logits of excluded tokens become -infinity.

/// Penalizes every token in `seen`: a positive logit is divided by the penalty, any other multiplied.
void penalize_repetition(std::span<float> logits, std::span<const std::int64_t> seen, double penalty);
/// Keeps the k largest logits, and those equal to the last of them.
void keep_top_k(std::span<float> logits, std::int64_t k);
/// Keeps the most probable tokens that together have at least the probability p; at least one.
void keep_top_p(std::span<float> logits, double p);
/// Keeps tokens with at least `p` times the probability of the most probable one.
void keep_min_p(std::span<float> logits, double p);

/// Applies all of these in order, with the temperature (above 0) after the penalty.
void keep_tokens(std::span<float> logits, std::span<const std::int64_t> seen,
                 const GenerateSettings& settings);

/// Sampler for the tokens of one answer. With a temperature of 0 the token with the largest logit is taken,
/// without a draw, and of the settings only the penalty counts.
class TokenSampler {
 public:
  /// `number`: number of the prompt in its job, which together with the seed keys the random draws.
  TokenSampler(const GenerateSettings& settings, std::int64_t number)
      : settings_(settings), number_(number) {}

  /// The token at `position`, counted from the first of the answer, from `logits` [vocabulary], which are
  /// changed. `seen`: prompt and answer so far. The same for the same logits, wherever and in whatever
  /// company it is drawn.
  [[nodiscard]] std::int64_t next(std::span<float> logits, std::span<const std::int64_t> seen,
                                  std::int64_t position) const;

 private:
  GenerateSettings settings_;
  std::int64_t number_;
};

}  // namespace sluice
