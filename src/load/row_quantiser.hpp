// Numbers on their way to codes and scales. Private to src/load.
#pragma once

#include "base/dtype.hpp"
#include "load/load_plan.hpp"
#include "shard/arena.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace sluice {

/// Quantises rows of stored weights as they arrive, in the file's digits. A row that comes in parts waits
/// until it is whole, so that codes depend neither on the sizes of reads nor on the number of ranks.
class RowQuantiser {
 public:
  /// Elements that are widened to float32 at a time, or one row if that has more.
  static constexpr std::int64_t kAtOnce = std::int64_t{64} * 1024;

  /// `arena` must outlive the quantiser.
  explicit RowQuantiser(const ShardArena& arena) : arena_(arena) {}

  /// Takes a piece of numbers that belong to stored units, with its lines at `source`.
  void add(const Piece& piece, const std::byte* source);
  /// Error(kInternal) if a row is not whole.
  void finish() const;

 private:
  struct OpenRow {
    std::vector<float> values;
    std::int64_t missing = 0;
  };

  /// Takes `count` neighbours, of which the first belongs at element `place` of the arena.
  void add(std::int64_t place, std::int64_t count, const std::byte* values, DType type);
  void add_part(std::int64_t row_place, Range columns, std::int64_t row_elements, const std::byte* values,
                DType type);
  /// Whole rows.
  void quantise(std::int64_t place, std::int64_t count, const float* values) const;

  const ShardArena& arena_;
  std::vector<float> draft_;
  std::map<std::int64_t, OpenRow> open_;  ///< rows by the element of the arena that they begin at
};

/// Bytes that a quantiser holds on a rank at most: a row that is not whole yet, or where files have matrices
/// transposed an expert and the boxes of a chunk. 0 if `options` has none.
[[nodiscard]] std::int64_t quantiser_bytes(const ShardPlan& shards, const LoadPlanOptions& options, int rank);

}  // namespace sluice
