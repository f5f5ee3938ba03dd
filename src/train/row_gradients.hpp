// Gradients of a table of which a step touches few rows, such as an embedding: rows travel, not the table.
#pragma once

#include "comm/communicator.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// Whose rows are whose in one sum over ranks.
class RowGradients {
 public:
  /// Collective over `comm`, which must outlive this; rank r owns rows [cuts[r], cuts[r + 1]) of the table.
  /// `rows`: those that this rank has gradients for, ascending, each once.
  RowGradients(Communicator& comm, std::vector<std::int64_t> rows, std::vector<std::int64_t> cuts);

  [[nodiscard]] std::int64_t own_rows() const { return static_cast<std::int64_t>(own().size()); }
  /// Rows that a rank may have and receive together, at most; the same on all ranks.
  [[nodiscard]] std::int64_t most_rows() const;

  /// Collective over the ranks. Adds all ranks' gradients of the rows that this rank owns, in rank order, to
  /// `shard` [its rows, width]. `gradients` [most_rows(), width] begins with those of this rank's own rows;
  /// behind them arrive those of others.
  void add_to(float* shard, float* gradients, std::int64_t width) const;

 private:
  using Rows = std::vector<std::int64_t>;
  [[nodiscard]] const Rows& own() const { return rows_[static_cast<std::size_t>(comm_.rank())]; }
  /// How many of a rank's rows each rank owns.
  [[nodiscard]] std::vector<std::int64_t> counts_by_owner(const Rows& rows) const;

  Communicator& comm_;
  std::vector<Rows> rows_;  ///< of each rank
  Rows cuts_;
};

}  // namespace sluice
