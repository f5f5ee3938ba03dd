// A rank's numbers, addressed by the elements of its arena, in whatever form they are kept.
#pragma once

#include "base/error.hpp"
#include "device/copy.hpp"
#include "shard/arena.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

class ShardValues {
 public:
  virtual ~ShardValues() = default;
  ShardValues(const ShardValues&) = delete;
  ShardValues& operator=(const ShardValues&) = delete;

  [[nodiscard]] virtual const ShardPlan& plan() const = 0;
  [[nodiscard]] virtual int rank() const = 0;
  /// The element type that holds the values without rounding.
  [[nodiscard]] virtual DType dtype() const = 0;
  /// Whether a unit has values: gradients have none for a frozen unit.
  [[nodiscard]] virtual bool holds(int /*unit*/) const { return true; }
  /// Writes `count` elements from element `begin` of the arena on as `dtype`, rounded to nearest. They belong
  /// to one tensor, and of fused experts to one expert.
  virtual void read(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const = 0;
  /// Reads `count` float32 elements of the persistent buffers from element `begin` on; every rank has all of
  /// them.
  virtual void read_buffers(std::int64_t begin, std::int64_t count, float* out) const = 0;
  /// Address in main memory of the elements from `begin` on, if they lie there in type `dtype` already; else
  /// null.
  [[nodiscard]] virtual const std::byte* find(std::int64_t begin, DType dtype) const = 0;

 protected:
  ShardValues() = default;
};

/// The elements of a rank's shard of one stored unit, dequantised from given bytes.
class StoredUnitValues final : public ShardValues {
 public:
  /// `bytes`: first byte of the shard. The bytes and `layout` must outlive this object.
  StoredUnitValues(const StoredLayout& layout, int unit, const std::byte* bytes, DType dtype)
      : layout_(layout), unit_(unit), bytes_(bytes), dtype_(dtype) {}

  [[nodiscard]] const ShardPlan& plan() const override { return layout_.plan(); }
  [[nodiscard]] int rank() const override { return layout_.rank(); }
  [[nodiscard]] DType dtype() const override { return dtype_; }
  [[nodiscard]] bool holds(int unit) const override { return unit == unit_; }
  void read(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const override {
    const auto [unit, first] = plan().unit_element(rank(), begin);
    SLUICE_ASSERT(unit == unit_, "found elements of unit {}, expected unit {}", unit, unit_);
    layout_.dequantise(unit, {first, first + count}, {bytes_, layout_.own_bytes(unit).begin}, dtype, out);
  }
  void read_buffers(std::int64_t /*begin*/, std::int64_t count, float* /*out*/) const override {
    SLUICE_ASSERT(count == 0, "{} elements of persistent buffers were asked of a stored unit, which has none",
                  count);
  }
  [[nodiscard]] const std::byte* find(std::int64_t /*begin*/, DType /*dtype*/) const override {
    return nullptr;
  }

 private:
  const StoredLayout& layout_;
  int unit_;
  const std::byte* bytes_;
  DType dtype_;
};

/// The elements of an arena itself.
class ArenaValues final : public ShardValues {
 public:
  /// `arena` must outlive this object.
  explicit ArenaValues(const ShardArena& arena) : arena_(arena) {}

  [[nodiscard]] const ShardPlan& plan() const override { return arena_.plan(); }
  [[nodiscard]] int rank() const override { return arena_.rank(); }
  [[nodiscard]] DType dtype() const override { return arena_.dtype(); }
  [[nodiscard]] bool holds(int unit) const override { return arena_.holds(unit); }
  void read(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const override {
    if (is_stored(begin)) return read_stored(begin, count, dtype, out);
    const HostBytes here(element(begin), count * size_of(arena_.dtype()));
    convert_elements(here.data(), arena_.dtype(), out, dtype, count);
  }
  void read_buffers(std::int64_t begin, std::int64_t count, float* out) const override {
    copy_bytes(out, arena_.buffers() + begin, count * size_of(DType::kFloat32));
  }
  [[nodiscard]] const std::byte* find(std::int64_t begin, DType dtype) const override {
    const bool is_here = dtype == arena_.dtype() && !arena_.is_on_device() && !is_stored(begin);
    return is_here ? element(begin) : nullptr;
  }

 private:
  [[nodiscard]] bool is_stored(std::int64_t begin) const {
    return arena_.plan().is_stored_at(arena_.rank(), begin);
  }
  void read_stored(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const {
    const int unit = arena_.plan().unit_element(arena_.rank(), begin).unit;
    StoredUnitValues(*arena_.stored(), unit, arena_.stored_data(unit), dtype).read(begin, count, dtype, out);
  }
  [[nodiscard]] const std::byte* element(std::int64_t index) const {
    return arena_.data() + index * size_of(arena_.dtype());
  }
  const ShardArena& arena_;
};

}  // namespace sluice
