// Dequantises one matrix of a stored unit, its rows shared among threads. Private to src/decoder/stored.
#pragma once

#include "base/round.hpp"
#include "ops/buffers/shared_work.hpp"
#include "shard/stored/stored_layout.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

/// Dequantises the block of a placement that begins at element `begin` of the unit's buffer, to `out`.
/// `bytes`: all bytes that the rank holds of the unit.
inline void dequantise_rows(const StoredLayout& layout, int unit, const Placement& place, std::int64_t begin,
                            const std::byte* bytes, DType to, std::byte* out) {
  // The least elements for which another thread pays off.
  constexpr std::int64_t kLeast = std::int64_t{16} * 1024;
  const std::int64_t columns = place.row_elements;
  ops::share_work(place.block_elements / columns, divide_up(kLeast, columns),
                  [&](std::int64_t first, std::int64_t end) {
                    layout.dequantise(unit, {begin + first * columns, begin + end * columns}, {bytes, 0}, to,
                                      out + first * columns * size_of(to));
                  });
}

}  // namespace sluice
