// The heads that attention on matrix tiles works on. Internal to src/ops.
#pragma once

#include "ops/cpu/tiles/layout.hpp"
#include "ops/cpu/token_ids.hpp"

#include <cstdint>
#include <numbers>

namespace sluice::ops::cpu::tiles {

/// One key and value head of a sequence, and the query heads that share it; elements are bfloat16.
struct Heads {
  std::int64_t length, width, group;
  /// Strides in elements from a position to the next; the heads of a group are `width` elements apart.
  std::int64_t query_stride, key_stride;
  const std::uint16_t *q, *k, *v;
  const std::int64_t* document;  ///< Document of each position, see document_of().
  float scale;
  float* logsumexp;  ///< Output [group, length]: log2 of the sum of e^(scale * score) over all keys.
  const float* sinks =
      nullptr;  ///< Logits [group] of sinks that are added to these sums; null: no sinks, or already added.

  /// Returns the first key that the query at this position attends to.
  [[nodiscard]] std::int64_t first_key(std::int64_t position) const { return first_seen(document, position); }
  /// Returns the first key of the block that holds first_key().
  [[nodiscard]] std::int64_t first_block(std::int64_t position) const {
    return first_key(position) / kBlock * kBlock;
  }
  [[nodiscard]] std::int64_t query_offset(std::int64_t head, std::int64_t position) const {
    return position * query_stride + head * width;
  }
  /// Factor that turns a score into an exponent of 2.
  [[nodiscard]] float log2_scale() const { return scale * std::numbers::log2e_v<float>; }

  /// Returns the end of the positions in [begin, end) that attend to a key before `key_end`.
  [[nodiscard]] std::int64_t end_of_seeing(std::int64_t begin, std::int64_t end, std::int64_t key_end) const;

  /// Whether all queries of a block, from `position` on, attend to all keys [begin, end).
  [[nodiscard]] bool all_see(std::int64_t position, std::int64_t begin, std::int64_t end) const;
  /// Sets one bit per query that attends to the key, for each key in [begin, end); the last queries may not
  /// exist.
  void who_sees(std::int64_t position, std::int64_t begin, std::int64_t end, std::uint32_t* seen) const;
};

}  // namespace sluice::ops::cpu::tiles
