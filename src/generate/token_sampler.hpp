// The next token, from its logits: as transformers' logits processors in their order, and a draw that a
// counter makes.
#pragma once

#include <cstdint>
#include <span>

namespace sluice {

/// Settings of the draw. With a temperature of 0 the token with the largest logit is taken: nothing is drawn,
/// and only the penalty counts.
struct SamplerOptions {
  double temperature = 0;
  std::int64_t top_k = 0;         ///< most probable tokens that are drawn from; 0: all
  double top_p = 1;               ///< probability of the tokens that are drawn from, together; 1: all
  double min_p = 0;               ///< least probability relative to the largest; 0: all
  double repetition_penalty = 1;  ///< divisor of the logits of tokens that occur already; 1: none
  std::uint64_t seed = 0;
};

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
void keep_tokens(std::span<float> logits, std::span<const std::int64_t> seen, const SamplerOptions& options);

/// The tokens of one answer.
class TokenSampler {
 public:
  /// `number`: of the prompt, among those of its job; with the seed it names the numbers that are drawn.
  TokenSampler(const SamplerOptions& options, std::int64_t number) : options_(options), number_(number) {}

  /// The token at `position`, counted from the first of the answer, from `logits` [vocabulary], which are
  /// changed. `seen`: prompt and answer so far. The same for the same logits, wherever and in whatever
  /// company it is drawn.
  [[nodiscard]] std::int64_t next(std::span<float> logits, std::span<const std::int64_t> seen,
                                  std::int64_t position) const;

 private:
  SamplerOptions options_;
  std::int64_t number_;
};

}  // namespace sluice
