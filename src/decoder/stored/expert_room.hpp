// Room in which experts that memory holds as codes and scales are dequantised to the matrices that operations
// multiply with.
#pragma once

#include "device/memory.hpp"
#include "ops/parameter.hpp"
#include "shard/stored/stored_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Memory for the dequantised numbers of one expert, which all layers use in turn. An expert that is in it is
/// not dequantised again.
class ExpertRoom {
 public:
  /// Allocates `memory` for the largest expert of the stored units that the layout's rank holds, in `dtype`.
  /// `layout` must outlive the room.
  ExpertRoom(const StoredLayout& layout, DType dtype, MemoryKind memory);

  [[nodiscard]] std::int64_t bytes() const { return block_.bytes(); }
  [[nodiscard]] const StoredLayout& layout() const { return layout_; }
  [[nodiscard]] DType dtype() const { return dtype_; }

  /// A placement's block of an expert, dequantised. `expert` is counted among those that the rank holds.
  /// `bytes`: all bytes that the rank holds of the unit.
  [[nodiscard]] std::byte* numbers(int unit, int placement, std::int64_t expert, const std::byte* bytes);
  /// Dequantises `elements` of a placement's block of an expert to `out`, without use of the room.
  void write(int unit, int placement, std::int64_t expert, Range elements, const std::byte* bytes,
             std::byte* out) const;

 private:
  /// First element of a placement's block of an expert, in the unit's buffer.
  [[nodiscard]] std::int64_t begin_of(int unit, int placement, std::int64_t expert) const;

  const StoredLayout& layout_;
  DType dtype_;
  MemoryBlock block_;
  int unit_ = -1;  ///< unit whose expert is in the room; -1: none
  std::int64_t expert_ = -1;
  std::vector<bool> is_there_;  ///< whether the room holds the block of each placement
};

/// The experts of one tensor of one layer, as matrices that are dequantised when they are used.
class StoredExperts final : public ops::ExpertMatrices {
 public:
  /// Each expert is a matrix [out, in]. `room` must outlive this object.
  StoredExperts(ExpertRoom& room, int unit, int placement, std::int64_t out, std::int64_t in)
      : room_(room), unit_(unit), placement_(placement), out_(out), in_(in) {}

  /// Sets the bytes that the rank holds of the unit, which stay the caller's; null while the unit is not in
  /// memory.
  void bind(const std::byte* bytes) { bytes_ = bytes; }
  [[nodiscard]] int unit() const { return unit_; }
  [[nodiscard]] at::Tensor matrix(std::int64_t expert) override;
  void write_rows(std::int64_t expert, std::int64_t begin, std::int64_t end, void* out) const override;

 private:
  ExpertRoom& room_;
  int unit_, placement_;
  std::int64_t out_, in_;
  const std::byte* bytes_ = nullptr;
};

}  // namespace sluice
