// The next token, from its logits: as transformers' logits processors in their order, and a draw that a
// counter makes.
#pragma once

#include "config/job_config.hpp"

#include <cstdint>
#include <span>

namespace sluice {

// Each takes the logits of all tokens; those that are ruled out become -infinity.

/// Penalizes every token in `seen`: a logit above 0 is divided by the penalty, another multiplied by it.
void penalize_repetition(std::span<float> logits, std::span<const std::int64_t> seen, double penalty);
/// Keeps the k largest, and those equal to the last of them.
void keep_top_k(std::span<float> logits, std::int64_t k);
/// Keeps the most probable ones that together have at least the probability p; one at least.
void keep_top_p(std::span<float> logits, double p);
/// Keeps those with at least `p` times the probability of the most probable one.
void keep_min_p(std::span<float> logits, double p);

/// All of it, in that order, with the temperature (above 0) behind the penalty.
void keep_tokens(std::span<float> logits, std::span<const std::int64_t> seen,
                 const GenerateSettings& settings);

/// The tokens of one answer. With a temperature of 0 the token with the largest logit is taken: nothing is
/// drawn, and of the settings of the draw only the penalty counts.
class TokenSampler {
 public:
  /// `number`: of the prompt, among those of its job; with the seed it names the numbers that are drawn.
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
