// Distributions over the vocabulary, of each of some tokens the part that a file of scores keeps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Of n tokens, `width` tokens of each distribution. Empty if there are none.
struct TokenDistributions {
  std::int64_t width = 0;
  std::vector<std::int32_t> ids{};  ///< [n, width]; -1: no more tokens
  /// log-probability of each token, or the number of draws that gave it, [n, width]; 0 where there is no id
  std::vector<float> values{};
  /// logarithm of the probability of all other tokens, [n]; empty if the tokens were drawn
  std::vector<float> rest{};
};

/// What the distributions of all teachers of a job have in common.
struct TeacherFacts {
  std::int64_t width = 0;  ///< most tokens that a teacher names at a target; 0: there is no teacher
  double temperature = 1;  ///< divisor of the logits
  bool is_exact = true;    ///< whether all tokens that are named are the most probable ones, none drawn
};

/// Distributions of a teacher for n targets, in the form in which they are learnt: teacher_row_bytes() each.
struct TeacherRows {
  std::int64_t width = 0;  ///< most tokens that the teacher names at a target; 0: there is no teacher
  std::vector<std::int32_t> ids{};  ///< [n, width]; -1: no more tokens
  std::vector<float> weights{};     ///< probabilities of these, [n, width]; all 0 for a target without any
  std::vector<float> rest{};        ///< probability of all other tokens together, [n]
};

}  // namespace sluice
