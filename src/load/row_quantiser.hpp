// Quantises plain numbers to codes and scales while they are loaded. Private to src/load.
#pragma once

#include "base/dtype.hpp"
#include "load/load_plan.hpp"
#include "shard/arena.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace sluice {

/// Quantises rows of stored weights as they arrive, in the file's element type. A row that arrives in parts
/// waits until it is whole, so that codes depend neither on the sizes of chunks nor on the number of ranks.
class RowQuantiser {
 public:
  /// Elements that are converted to float32 at a time; a longer row is converted as a whole.
  static constexpr std::int64_t kAtOnce = std::int64_t{64} * 1024;

  /// `arena` must outlive the quantiser.
  explicit RowQuantiser(const ShardArena& arena) : arena_(arena) {}

  /// Adds plain numbers of a move for stored units, whose lines begin at `source`.
  void add(const LoadMove& move, const std::byte* source);
  /// Error(kInternal) if a row is incomplete.
  void finish() const;

 private:
  struct OpenRow {
    std::vector<float> values;
    std::int64_t missing = 0;
  };

  /// Adds `count` consecutive elements of the arena, from element `place` on.
  void add(std::int64_t place, std::int64_t count, const std::byte* values, DType type);
  void add_part(std::int64_t row_place, Range columns, std::int64_t row_elements, const std::byte* values,
                DType type);
  /// Quantises whole rows: `count` elements of the arena from element `place` on.
  void quantise(std::int64_t place, std::int64_t count, const float* values) const;

  const ShardArena& arena_;
  std::vector<float> draft_;
  /// Incomplete rows, by the element of the arena at which they begin.
  std::map<std::int64_t, OpenRow> open_;
};

/// Most bytes that a quantiser holds on a rank: an incomplete row, or where files have matrices transposed an
/// expert and the boxes of a chunk. 0 if `options` needs no quantiser.
[[nodiscard]] std::int64_t quantiser_bytes(const ShardPlan& shards, const LoadPlanOptions& options, int rank);

}  // namespace sluice
