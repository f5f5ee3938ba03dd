// Interface for a head whose rows several ranks have between them: each computes the logits of its rows for the
// tokens of all.
#pragma once

#include "base/range.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sluice::ops {

/// Tokens of all ranks that pass the head at once.
struct TokenPiece {
  Range own;                         ///< tokens of this rank, numbered among those of its call
  std::vector<std::int64_t> counts;  ///< number of tokens of each rank
  [[nodiscard]] std::int64_t all() const { return sum(counts); }
};

/// Exchange of tokens, and of numbers about them, between the ranks that have all rows of the head between them. N
/// are the tokens of all these ranks in a piece, in rank order, n those of this rank. Every function is collective
/// over the ranks.
class VocabularyExchange {
 public:
  virtual ~VocabularyExchange() = default;
  VocabularyExchange(const VocabularyExchange&) = delete;
  VocabularyExchange& operator=(const VocabularyExchange&) = delete;

  /// Range of the rows of the head that each rank has.
  [[nodiscard]] virtual const std::vector<Range>& rows_of_ranks() const = 0;
  /// Number of this rank among them.
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] Range own_rows() const { return rows_of_ranks()[static_cast<std::size_t>(rank())]; }
  /// Rows of the whole head.
  [[nodiscard]] std::int64_t vocabulary() const { return rows_of_ranks().back().end; }

  /// The largest of the ranks' numbers.
  [[nodiscard]] virtual std::int64_t largest(std::int64_t number) = 0;
  /// Cuts the tokens of a call, of which this rank has `tokens`, into pieces of at most `at_once` tokens a rank: as
  /// many pieces on every rank.
  [[nodiscard]] virtual std::vector<TokenPiece> pieces(std::int64_t tokens, std::int64_t at_once) = 0;
  /// Rows [N, width] of all ranks' tokens, from this rank's [n, width].
  [[nodiscard]] virtual at::Tensor gather(const TokenPiece& piece, const at::Tensor& own) = 0;
  /// What each rank has found about this rank's tokens, [ranks, n, width], from what this one has found about all,
  /// [N, width].
  [[nodiscard]] virtual at::Tensor of_ranks(const TokenPiece& piece, const at::Tensor& found) = 0;
  /// Columns of all rows of the head, [n, vocabulary], for this rank's tokens, from those of its own rows for all
  /// tokens, [N, own rows].
  [[nodiscard]] virtual at::Tensor columns(const TokenPiece& piece, const at::Tensor& own) = 0;
  /// Sums over ranks, in rank order, for this rank's tokens, [n, width], of gradients [N, width] float32, each rank's
  /// part rounded as gradients are sent.
  [[nodiscard]] virtual at::Tensor sum(const TokenPiece& piece, const at::Tensor& parts) = 0;

 protected:
  VocabularyExchange() = default;
};

}  // namespace sluice::ops
