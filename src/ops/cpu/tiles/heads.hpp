// The heads that attention on matrix tiles works on. Internal to src/ops.
#pragma once

#include "ops/cpu/tiles/layout.hpp"
#include "ops/cpu/token_ids.hpp"

#include <cstdint>
#include <numbers>

namespace sluice::ops::cpu::tiles {

/// One head of keys and values of a sequence, and the query heads that share it; numbers are bfloat16.
struct Heads {
  std::int64_t length, width, group;
  /// Elements from a position to the next; heads of a group are `width` apart.
  std::int64_t query_stride, key_stride;
  const std::uint16_t *q, *k, *v;
  const std::int64_t* document;  ///< document of each position, see document_of()
  float scale;
  float* logsumexp;  ///< [group, length]: log2 of the sum of e^(scale * score) over all keys
  const float* sinks =
      nullptr;  ///< [group] logits that belong to these sums; null: none, or in the sums already

  /// The first key that a query at this position sees.
  [[nodiscard]] std::int64_t first_key(std::int64_t position) const { return first_seen(document, position); }
  /// And where the block of keys begins that holds it.
  [[nodiscard]] std::int64_t first_block(std::int64_t position) const {
    return first_key(position) / kBlock * kBlock;
  }
  [[nodiscard]] std::int64_t query_offset(std::int64_t head, std::int64_t position) const {
    return position * query_stride + head * width;
  }
  /// Factor that turns a score into an exponent of 2.
  [[nodiscard]] float log2_scale() const { return scale * std::numbers::log2e_v<float>; }

  /// End of the positions in [begin, end) that attend to a key before `key_end`.
  [[nodiscard]] std::int64_t end_of_seeing(std::int64_t begin, std::int64_t end, std::int64_t key_end) const;

  /// Whether all queries of a block from `position` on see all keys [begin, end).
  [[nodiscard]] bool all_see(std::int64_t position, std::int64_t begin, std::int64_t end) const;
  /// For each key in [begin, end) a bit per query that attends to it; the last queries may not exist.
  void who_sees(std::int64_t position, std::int64_t begin, std::int64_t end, std::uint32_t* seen) const;
};

}  // namespace sluice::ops::cpu::tiles
