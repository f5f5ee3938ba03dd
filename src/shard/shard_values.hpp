// A rank's numbers at the places of its arena, in whatever form they are kept.
#pragma once

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
    const auto [unit, first] = arena_.plan().unit_element(arena_.rank(), begin);
    arena_.stored()->dequantise(unit, {first, first + count},
                                {arena_.stored_data(unit), arena_.stored()->own_bytes(unit).begin}, dtype,
                                out);
  }
  [[nodiscard]] const std::byte* element(std::int64_t index) const {
    return arena_.data() + index * size_of(arena_.dtype());
  }
  const ShardArena& arena_;
};

}  // namespace sluice
