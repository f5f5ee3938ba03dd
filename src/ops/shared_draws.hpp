// Tokens drawn from distributions of which each of several ranks has the logits of its rows of the vocabulary: the same
// draws as DrawsOfTokens makes of all logits, but for roundings of sums.
#pragma once

#include "base/range.hpp"
#include "ops/token_distribution.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sluice::ops {

/// One rank's part in drawing from T distributions. Tiles of its logits pass twice: for their sums, and once the sums
/// of all ranks are known, for the draws.
class SharedDraws {
 public:
  /// `like`: any tensor [T, ...]; `rows_of_ranks`: rows of the vocabulary on each rank, in ascending order.
  SharedDraws(const DrawnTokens& wanted, const at::Tensor& like, std::vector<Range> rows_of_ranks, int rank);

  /// Adds a tile of logits [T, n] of this rank's rows, from id `first` on, to the sums.
  void take(const at::Tensor& logits, std::int64_t first);
  /// The sums as numbers [T, 6] float64; and such numbers of every rank, [ranks, T, 6].
  [[nodiscard]] at::Tensor numbers() const;
  void set(const at::Tensor& of_ranks);

  /// Draws from a tile of logits, after set(). Tiles come in ascending order, and are cut at multiples of kDrawBlock.
  void draw(const at::Tensor& logits, std::int64_t first);
  /// For each draw the last token of this rank's rows that it met, [T, count] int32; -1: none. The largest over ranks
  /// is the token drawn.
  [[nodiscard]] const at::Tensor& ids() const { return ids_; }

 private:
  /// What a draw must know of a block of the vocabulary, [T] float64 each: sums of exponentials.
  struct Block {
    std::int64_t number = -1;
    at::Tensor before{};  ///< sum over all earlier blocks
    at::Tensor begin{};   ///< sum over the block's logits on lower ranks
    at::Tensor end{};     ///< the same with those of this rank
    at::Tensor all{};     ///< sum over the block
    bool is_end = true;   ///< whether no higher rank has logits of the block
  };
  /// The block of this number; `sums` [ranks, T, parts]: sums of each rank's parts, to one base.
  [[nodiscard]] Block block(std::int64_t number, const at::Tensor& sums) const;
  [[nodiscard]] at::Tensor sum_before(std::int64_t number, const at::Tensor& sums) const;
  [[nodiscard]] const Range& own() const { return rows_[static_cast<std::size_t>(rank_)]; }
  void draw_block(const at::Tensor& rows, std::int64_t first);

  double temperature_;
  DrawNumbers random_;
  std::vector<Range> rows_;
  int rank_;
  /// Sums over logits of the first block of this rank's rows, of those between, and of the last one, if it is another.
  std::vector<ExponentialSum> sums_;
  Block first_{}, last_{};  ///< the blocks that other ranks may have logits of
  at::Tensor shift_{};      ///< largest of all logits of a token, [T] float32
  at::Tensor before_{};     ///< sum over the blocks drawn from so far, [T] float64
  at::Tensor ids_;
};

}  // namespace sluice::ops
