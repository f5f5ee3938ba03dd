#include "decoder/stored/dense_room.hpp"

#include "decoder/stored/dequantise_rows.hpp"

namespace sluice {

DenseRoom::DenseRoom(const StoredLayout& layout, DType dtype, MemoryKind memory)
    : layout_(layout),
      dtype_(dtype),
      block_(allocate(memory, largest_stored_dense(layout.plan()) * size_of(dtype),
                      "the numbers of a dequantised unit")) {}

std::byte* DenseRoom::numbers(int unit, const std::byte* bytes) {
  for (const Placement& place : layout_.plan().layouts().units[static_cast<std::size_t>(unit)].placements())
    dequantise_rows(layout_, unit, place, place.offset, bytes, dtype_,
                    block_.data() + place.offset * size_of(dtype_));
  return block_.data();
}

}  // namespace sluice
