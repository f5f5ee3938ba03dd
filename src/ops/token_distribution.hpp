// What is made of each token's distribution over the vocabulary beside the loss of its target. Logits come in
// tiles of the vocabulary, each once, in ascending order, so they never exist all at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <variant>

namespace sluice::ops {

/// Request for the most probable tokens.
struct TopTokens {
  std::int64_t count = 0;
  double temperature = 1;  ///< divisor of the logits
};

/// Request for tokens drawn from each distribution. Draw d of a token is a function of the seed, the token's
/// place and d, so that it is the same wherever and in whatever company it is made.
struct DrawnTokens {
  std::int64_t count = 0;
  double temperature = 1;  ///< divisor of the logits
  std::uint64_t seed = 0;
  at::Tensor places{};  ///< number of each token among all, [T] int64
};

/// Distributions of a teacher, to learn beside the targets. The loss of a token with one is
/// (1 - weight) times the cross-entropy of its target plus weight times
/// -sum_j weights_j log p_j - rest log(sum of all other p), with p the softmax of logits / temperature.
struct TeacherTokens {
  at::Tensor ids{};      ///< tokens that the teacher names, distinct, [T, k] int32 or int64; -1: none
  at::Tensor weights{};  ///< probabilities of these, [T, k], all 0 for a token without a distribution
  at::Tensor rest{};     ///< probability of all other tokens together, [T]
  double temperature = 1;
  double weight = 1;  ///< share of the teacher in the loss, 0 to 1

  /// Distributions of tokens [begin, begin + count).
  [[nodiscard]] TeacherTokens narrow(std::int64_t begin, std::int64_t count) const {
    return {ids.narrow(0, begin, count), weights.narrow(0, begin, count), rest.narrow(0, begin, count),
            temperature, weight};
  }
  /// Whether a token has a distribution, [T] bool.
  [[nodiscard]] at::Tensor is_taught() const;
};

/// What else is made of a token's logits than the loss of its target.
using BesideTargets = std::variant<std::monostate, TopTokens, DrawnTokens, TeacherTokens>;

/// Tokens of each distribution, as TopTokens or DrawnTokens ask for them.
struct TokenDistribution {
  /// distinct tokens, by descending probability, or by ascending id if they are drawn, [T, k] int32; -1: no more
  at::Tensor ids{};
  /// log-probability of each, or the number of draws that gave it, [T, k] float32; 0 where there is no id
  at::Tensor values{};
  at::Tensor rest{};  ///< log of the probability of all other tokens, [T] float32; undefined for drawn tokens
};

/// Entries of the vocabulary among which a draw is renewed at once: part of the meaning of a seed.
inline constexpr std::int64_t kDrawBlock = 1024;

/// Logits divided by a temperature, float32.
[[nodiscard]] at::Tensor scaled_logits(const at::Tensor& logits, double temperature);

/// Running sum of exponentials of each token.
class ExponentialSum {
 public:
  explicit ExponentialSum(const at::Tensor& like);
  /// Adds the exponentials of rows [T, n] float32, which may be -infinity.
  void add(const at::Tensor& rows);
  /// Logarithm of the sum, [T] float64.
  [[nodiscard]] at::Tensor log() const;
  /// Number that is subtracted before an exponential is taken, [T] float32, and the sum of those, [T] float64.
  [[nodiscard]] const at::Tensor& shift() const { return shift_; }
  [[nodiscard]] const at::Tensor& exponentials() const { return exponentials_; }

  /// The sum as numbers [T, 2] float64, which set() takes back, and such numbers of the sum of several, [parts, T, 2].
  [[nodiscard]] at::Tensor numbers() const;
  void set(const at::Tensor& numbers);
  [[nodiscard]] static at::Tensor joined(const at::Tensor& parts);

 private:
  at::Tensor largest_, shift_, exponentials_;
};

/// The most probable tokens of each of T distributions.
class TopOfTokens {
 public:
  /// `like`: any tensor [T, ...] on the device of the logits.
  TopOfTokens(const TopTokens& wanted, const at::Tensor& like);
  /// Takes a tile of logits [T, n], of the vocabulary from id `first` on.
  void take(const at::Tensor& logits, std::int64_t first);
  [[nodiscard]] TokenDistribution result() const;

  /// What was found, as numbers [T, width] float64.
  [[nodiscard]] at::Tensor numbers() const;
  /// Makes this what several have found of T distributions, each in its own part of the vocabulary:
  /// [parts, T, width].
  void join(const at::Tensor& parts);

 private:
  TopTokens wanted_;
  at::Tensor logits_, ids_;
  ExponentialSum rest_;
};

/// Random numbers of draws from T distributions.
class DrawNumbers {
 public:
  explicit DrawNumbers(const DrawnTokens& wanted);
  /// Number in [0, 1) of each draw [T, count] float64 for a block of the vocabulary, of kDrawBlock entries.
  [[nodiscard]] at::Tensor of_block(std::int64_t block) const;

 private:
  std::uint64_t key_;
  std::int64_t count_;
  at::Tensor places_;
};

/// Counts equal draws among ids [T, count], of whole numbers.
[[nodiscard]] TokenDistribution counted_draws(const at::Tensor& ids);

/// Tokens drawn from each of T distributions.
class DrawsOfTokens {
 public:
  DrawsOfTokens(const DrawnTokens& wanted, const at::Tensor& like);
  /// As TopOfTokens::take(). A tile begins at a multiple of kDrawBlock.
  void take(const at::Tensor& logits, std::int64_t first);
  [[nodiscard]] TokenDistribution result() const { return counted_draws(ids_); }

 private:
  void take_block(const at::Tensor& rows, std::int64_t first);

  double temperature_;
  DrawNumbers random_;
  at::Tensor ids_, largest_, exponentials_;
};

/// Losses of T tokens against a teacher, and their gradients.
class TeacherLoss {
 public:
  TeacherLoss(const TeacherTokens& teacher, const at::Tensor& like);
  /// As TopOfTokens::take().
  void take(const at::Tensor& logits, std::int64_t first);
  /// Cross-entropy against the teacher's distribution in nats, [T] float64; 0 for a token without one. Called
  /// after all tiles were taken.
  [[nodiscard]] at::Tensor losses() const;
  /// TeacherTokens::is_taught().
  [[nodiscard]] at::Tensor is_taught() const { return total_.gt(0); }
  /// Entropy of the teacher's distribution, all other tokens counted as one, [T] float64.
  [[nodiscard]] at::Tensor entropies() const;
  /// Gradient of the sum of coefficients [T] float64 * losses with respect to a tile of logits, [T, n] float32.
  [[nodiscard]] at::Tensor gradient(const at::Tensor& logits, std::int64_t first,
                                    const at::Tensor& coefficients) const;

  /// What was found, as numbers [T, width] float64, which set() takes back, and such numbers of what several have
  /// found, each in its own part of the vocabulary, [parts, T, width].
  [[nodiscard]] at::Tensor numbers() const;
  void set(const at::Tensor& numbers);
  [[nodiscard]] static at::Tensor joined(const at::Tensor& parts);

 private:
  struct Columns;
  [[nodiscard]] at::Tensor others(const at::Tensor& logits, const Columns& columns) const;
  [[nodiscard]] at::Tensor log_sum() const;

  TeacherTokens teacher_;
  at::Tensor total_;   ///< sum of weights and rest, [T]: 1, or 0 without a distribution
  at::Tensor logits_;  ///< scaled logits of the teacher's tokens, [T, k] float64; -infinity for no token
  ExponentialSum others_;
};

}  // namespace sluice::ops
