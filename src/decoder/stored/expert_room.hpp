// Experts that memory holds as codes and scales, as the matrices that operations multiply with.
#pragma once

#include "device/memory.hpp"
#include "ops/parameter.hpp"
#include "shard/stored/stored_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Room for the numbers of one expert, which all layers use in turn. What is there is not dequantised again.
class ExpertRoom {
 public:
  /// For every stored unit of experts that the layout's rank holds some of, in `dtype`. `layout` must outlive
  /// the room.
  ExpertRoom(const StoredLayout& layout, DType dtype);

  [[nodiscard]] std::int64_t bytes() const { return block_.bytes(); }
  [[nodiscard]] const StoredLayout& layout() const { return layout_; }
  [[nodiscard]] DType dtype() const { return dtype_; }

  /// The numbers of a placement's block of an expert, counted among those that the rank holds. `bytes` are
  /// all that it holds of the unit.
  [[nodiscard]] std::byte* numbers(int unit, int placement, std::int64_t expert, const std::byte* bytes);
  /// Writes `elements` of such a block to `out`, without use of the room.
  void write(int unit, int placement, std::int64_t expert, Range elements, const std::byte* bytes,
             std::byte* out) const;

 private:
  /// Number of the block's first element in the unit's buffer.
  [[nodiscard]] std::int64_t begin_of(int unit, int placement, std::int64_t expert) const;

  const StoredLayout& layout_;
  DType dtype_;
  MemoryBlock block_;
  int unit_ = -1;  ///< what is there, as far as it is
  std::int64_t expert_ = -1;
  std::vector<bool> is_there_;  ///< whether a placement of the unit is numbers, for each
};

/// One tensor's experts of one layer.
class StoredExperts final : public ops::ExpertMatrices {
 public:
  /// [out, in] each. `room` must outlive this.
  StoredExperts(ExpertRoom& room, int unit, int placement, std::int64_t out, std::int64_t in)
      : room_(room), unit_(unit), placement_(placement), out_(out), in_(in) {}

  /// All that the rank holds of the unit, which stays the caller's; null while it is not there.
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
