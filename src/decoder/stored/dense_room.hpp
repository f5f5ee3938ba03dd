// Room in which a dense unit that memory holds as codes and scales is dequantised while a layer computes with
// it.
#pragma once

#include "device/memory.hpp"
#include "shard/stored/stored_layout.hpp"

#include <cstddef>

namespace sluice {

/// Memory for the dequantised numbers of one unit, which all layers use in turn.
class DenseRoom {
 public:
  /// Allocates memory for the largest stored unit without experts, in `dtype` and `memory`. `layout` must
  /// outlive the room.
  DenseRoom(const StoredLayout& layout, DType dtype, MemoryKind memory);

  /// The unit's buffer, dequantised; valid until another unit is asked for. `bytes`: all bytes that the rank
  /// holds of the unit.
  [[nodiscard]] std::byte* numbers(int unit, const std::byte* bytes);

 private:
  const StoredLayout& layout_;
  DType dtype_;
  MemoryBlock block_;
};

}  // namespace sluice
