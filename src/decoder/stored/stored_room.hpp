// Room in which matrices that memory holds as codes and scales are dequantised for operations that multiply
// with numbers.
#pragma once

#include "device/memory.hpp"
#include "ops/parameter.hpp"
#include "shard/stored/stored_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// Memory for the dequantised numbers of one expert, or of one dense unit, which all layers use in turn. What
/// is in it is not dequantised again.
class StoredRoom {
 public:
  /// Allocates `memory` for so many elements in `dtype`; `purpose` names it in error messages. `layout` must
  /// outlive the room.
  StoredRoom(const StoredLayout& layout, std::int64_t elements, DType dtype, MemoryKind memory,
             const std::string& purpose);

  [[nodiscard]] const StoredLayout& layout() const { return layout_; }
  [[nodiscard]] DType dtype() const { return dtype_; }

  /// A placement's block of an expert, dequantised. `expert` is counted among those that the rank holds; a
  /// dense unit is one. `bytes`: all bytes that the rank holds of the unit.
  [[nodiscard]] std::byte* numbers(int unit, int placement, std::int64_t expert, const std::byte* bytes);
  /// First element of a placement's block of an expert, in the unit's buffer.
  [[nodiscard]] std::int64_t begin_of(int unit, int placement, std::int64_t expert) const;

 private:
  const StoredLayout& layout_;
  DType dtype_;
  MemoryBlock block_;
  int unit_ = -1;  ///< unit whose expert is in the room; -1: none
  std::int64_t expert_ = -1;
  std::vector<bool> is_there_;  ///< whether the room holds the block of each placement
};

/// One tensor of one layer, a matrix or the matrices of experts, dequantised when it is used.
class StoredTensor final : public ops::StoredMatrices {
 public:
  /// Each matrix is [out, in]. `room` must outlive this object.
  StoredTensor(StoredRoom& room, int unit, int placement, std::int64_t out, std::int64_t in)
      : room_(room), unit_(unit), placement_(placement), out_(out), in_(in) {}

  /// Sets the bytes that the rank holds of the unit, which stay the caller's; null while the unit is not in
  /// memory.
  void bind(const std::byte* bytes) { bytes_ = bytes; }
  void use_products(ops::Products products) { products_ = products; }
  [[nodiscard]] int unit() const { return unit_; }
  [[nodiscard]] at::Tensor matrix(std::int64_t expert) override;
  void write_rows(std::int64_t expert, std::int64_t begin, std::int64_t end, void* out) const override;
  [[nodiscard]] std::vector<CodedRows> coded_rows(std::int64_t expert) const override;
  [[nodiscard]] ops::Products products() const override { return products_; }

 private:
  /// Elements of rows [begin, end) of an expert's matrix, in the unit's buffer, which must be bound.
  [[nodiscard]] Range elements_of(std::int64_t expert, std::int64_t begin, std::int64_t end) const;

  StoredRoom& room_;
  int unit_, placement_;
  std::int64_t out_, in_;
  const std::byte* bytes_ = nullptr;
  ops::Products products_ = ops::Products::kExact;
};

}  // namespace sluice
