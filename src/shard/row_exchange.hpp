// Exchanges the rows of a table that a step needs, such as an embedding's, instead of gathering the table.
#pragma once

#include "shard/rank_mesh.hpp"
#include "shard/shard_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// The rows of a table that each rank needs from each other rank, for their values and then for their
/// gradients.
class RowExchange {
 public:
  /// Collective over the sharers of `unit`, of which there is more than one. The unit is one table of rows.
  /// `mesh` must outlive the exchange. `rows`: rows that this rank needs, ascending, each once; numbers
  /// outside the table are ignored.
  RowExchange(const RankMesh& mesh, const ShardPlan& plan, int unit, const std::vector<std::int64_t>& rows);

  /// Rows of the table that this rank needs.
  [[nodiscard]] const std::vector<std::int64_t>& rows() const { return rows_[rank_]; }
  /// Elements of a row.
  [[nodiscard]] std::int64_t width() const { return width_; }
  /// Whether on every rank its own and its received rows together are at most the rows of the table; the same
  /// on all ranks.
  [[nodiscard]] bool fits() const;

  /// Collective over the sharers. Copies rows() to `values` [rows(), width] in main memory, from the ranks' shards of
  /// the table.
  void fetch(const std::byte* shard, std::byte* values, std::int64_t element_bytes) const;

  /// Collective over the sharers. Adds all ranks' gradients of the rows that this rank owns, in rank order and as the
  /// mesh sends them, to `shard` [its rows, width]. `gradients` begins with the gradients of rows(), one row after
  /// another; behind them there is room for received rows, in all for gradient_rows().
  void add_to(float* shard, float* gradients) const;
  /// Rows that this rank needs, and rows of its shard that ranks need, each as often as one does; if fits() at most
  /// the rows of the table.
  [[nodiscard]] std::int64_t gradient_rows() const;

 private:
  using Rows = std::vector<std::int64_t>;
  /// Numbers of rows that this rank needs from each owner, and that each rank needs from this one.
  struct Counts {
    Rows of_each, by_each;
  };
  [[nodiscard]] Counts counts() const;
  /// The rows among `rows` that rank `owner` owns.
  [[nodiscard]] std::span<const std::int64_t> owned_by(std::size_t owner, const Rows& rows) const;

  Communicator* comm_;
  std::size_t rank_;
  DType gradients_;  ///< type in which gradients travel
  std::int64_t width_ = 0;
  Rows cuts_;               ///< rank r owns rows [cuts[r], cuts[r + 1])
  std::vector<Rows> rows_;  ///< rows that each rank needs
};

}  // namespace sluice
