// A dense unit that memory holds as codes and scales, as numbers while a layer computes with it.
#pragma once

#include "device/memory.hpp"
#include "shard/stored/stored_layout.hpp"

#include <cstddef>

namespace sluice {

/// Room for the numbers of one unit, which all layers use in turn.
class DenseRoom {
 public:
  /// For the largest stored unit that has no experts, in `dtype`. `layout` must outlive the room.
  DenseRoom(const StoredLayout& layout, DType dtype);

  /// The unit's buffer as numbers, until another unit is asked for. `bytes` are all that the rank holds of
  /// the unit.
  [[nodiscard]] std::byte* numbers(int unit, const std::byte* bytes);

 private:
  const StoredLayout& layout_;
  DType dtype_;
  MemoryBlock block_;
};

}  // namespace sluice
