// A rank's numbers at the places of its arena, in whatever form they are kept.
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
  /// The element type that holds all of their digits.
  [[nodiscard]] virtual DType dtype() const = 0;
  /// Whether there are values of a unit: of gradients there are none where it is frozen.
  [[nodiscard]] virtual bool holds(int /*unit*/) const { return true; }
  /// Writes the `count` elements from the arena's `begin`-th on as `dtype`, rounded to nearest. They belong
  /// to one tensor, of fused experts to one expert.
  virtual void read(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const = 0;
  /// Reads persistent buffers, which every rank has whole: `count` float32 elements from the `begin`-th of
  /// all.
  virtual void read_buffers(std::int64_t begin, std::int64_t count, float* out) const = 0;
  /// Address in main memory of the elements from `begin` on, if they lie there in that type already; else
  /// null.
  [[nodiscard]] virtual const std::byte* find(std::int64_t begin, DType dtype) const = 0;

 protected:
  ShardValues() = default;
};

/// The elements of a rank's shard of one stored unit, of which the bytes are given.
class StoredUnitValues final : public ShardValues {
 public:
  /// `bytes`: the first one of the shard. They and `layout` must outlive this.
  StoredUnitValues(const StoredLayout& layout, int unit, const std::byte* bytes, DType dtype)
      : layout_(layout), unit_(unit), bytes_(bytes), dtype_(dtype) {}

  [[nodiscard]] const ShardPlan& plan() const override { return layout_.plan(); }
  [[nodiscard]] int rank() const override { return layout_.rank(); }
  [[nodiscard]] DType dtype() const override { return dtype_; }
  [[nodiscard]] bool holds(int unit) const override { return unit == unit_; }
  void read(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const override {
    const auto [unit, first] = plan().unit_element(rank(), begin);
    SLUICE_ASSERT(unit == unit_, "elements of unit {} among those of unit {}", unit, unit_);
    layout_.dequantise(unit, {first, first + count}, {bytes_, layout_.own_bytes(unit).begin}, dtype, out);
  }
  void read_buffers(std::int64_t /*begin*/, std::int64_t count, float* /*out*/) const override {
    SLUICE_ASSERT(count == 0, "{} elements of persistent buffers in a stored unit", count);
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

/// An arena's own elements.
class ArenaValues final : public ShardValues {
 public:
  /// `arena` must outlive this.
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
    const bool is_here = dtype == arena_.dtype() && !is_on_device(arena_.data()) && !is_stored(begin);
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
