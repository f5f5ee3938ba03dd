// Gradients of a table of which a step touches few rows, such as an embedding: rows travel, not the table.
#pragma once

#include "comm/communicator.hpp"

#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

namespace sluice {

/// Whose rows are whose in one sum over ranks.
class RowGradients {
 public:
  /// Collective over `comm`, which must outlive this; rank r owns rows [cuts[r], cuts[r + 1]) of the table,
  /// of `width` elements each. `rows`: those that this rank has gradients for, ascending, each once.
  RowGradients(Communicator& comm, std::vector<std::int64_t> rows, std::vector<std::int64_t> cuts,
               std::int64_t width);

  [[nodiscard]] std::int64_t own_rows() const {
    return std::ssize(rows_[static_cast<std::size_t>(comm_.rank())]);
  }
  /// Rows that a rank may have and receive together, at most; the same on all ranks.
  [[nodiscard]] std::int64_t most_rows() const;

  /// Collective over the ranks. Adds all ranks' gradients of the rows that this rank owns, in rank order, to
  /// `shard` [its rows, width]. `gradients` [most_rows(), width] begins with those of this rank's own rows;
  /// behind them arrive those of others.
  void add_to(float* shard, float* gradients) const;

 private:
  using Rows = std::vector<std::int64_t>;
  /// Those of some rows that a rank owns.
  [[nodiscard]] std::span<const std::int64_t> owned_by(std::size_t owner, const Rows& rows) const;

  Communicator& comm_;
  std::vector<Rows> rows_;  ///< of each rank
  Rows cuts_;
  std::int64_t width_;
};

}  // namespace sluice
