// Code that the reading and the receiving side of a load share. Private to src/load.
#pragma once

#include "base/boxes/transpose.hpp"
#include "base/round.hpp"
#include "device/copy.hpp"
#include "device/memory.hpp"
#include "encoding/dequantise.hpp"
#include "load/load_plan.hpp"
#include "load/row_quantiser.hpp"
#include "load/streaming_loader.hpp"
#include "shard/arena.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

constexpr int kLoadTag = 1;

/// The staging memory of a rank: equal slots, each beginning on a page, readable by the device if the arena
/// lies on one. A rank that stages nothing has no slots.
class StagingRing {
 public:
  /// `memory`: the kind of memory of the slots.
  StagingRing(MemoryKind memory, std::int64_t slot_bytes, int slots)
      : slot_bytes_(round_up(slot_bytes, LoadPlan::kBlockBytes)),
        slots_(static_cast<std::size_t>(slots)),
        block_(slot_bytes == 0 ? MemoryBlock() : allocate(memory, slot_bytes_ * slots, "load staging")) {}

  [[nodiscard]] std::size_t slots() const { return slots_; }
  [[nodiscard]] std::int64_t bytes() const { return block_.bytes(); }
  [[nodiscard]] std::span<std::byte> slot(std::size_t i) const {
    const auto bytes = block_.data() == nullptr ? 0 : static_cast<std::size_t>(slot_bytes_);
    return {block_.data() + i % slots_ * bytes, bytes};
  }

 private:
  std::int64_t slot_bytes_;
  std::size_t slots_;
  MemoryBlock block_;
};

/// Objects with which both sides of a load work.
struct LoadSetting {
  Communicator& comm;
  const LoadPlan& plan;
  ShardArena* arena;
  const std::filesystem::path& directory;
  const LoadOptions& options;
  [[nodiscard]] int rank() const { return comm.rank(); }
  [[nodiscard]] bool is_on_device() const {
    return arena != nullptr && arena->memory() == MemoryKind::kDevice;
  }
  [[nodiscard]] StagingRing ring() const {
    return {is_on_device() ? MemoryKind::kPinned : MemoryKind::kPrivate, plan.slot_bytes(rank()),
            plan.slots(rank(), options.ring_slots)};
  }
};

/// Writes pieces to their places in this rank's arena; does nothing without an arena. On a device the pieces
/// are complete after flush(); until then the sources must not change.
class ArenaWriter {
 public:
  explicit ArenaWriter(const ShardArena* arena)
      : arena_(arena), is_on_device_(arena != nullptr && arena->memory() == MemoryKind::kDevice) {
    if (arena != nullptr && arena->stored() != nullptr) quantiser_.emplace(*arena);
  }

  [[nodiscard]] std::byte* place(const Piece& piece) const {
    return arena_->data() + piece.arena * size_of(arena_->dtype());
  }
  /// Writes a piece from `source`. `scales`: the first scale that a piece of codes needs.
  void write(const Piece& piece, const std::byte* source, const std::byte* scales) {
    if (arena_ == nullptr) return;
    const bool is_stored = arena_->plan().is_stored_at(arena_->rank(), piece.arena);
    if (is_stored && piece.encoding == nullptr) return quantiser_->add(piece, source);
    if (is_stored) return store(piece, source, scales);
    if (piece.is_box()) return write_box(piece, source);
    if (is_on_device_ && piece.dtype == arena_->dtype() && piece.encoding == nullptr) {
      copies_.push_back({place(piece), source, piece.bytes()});
      return;
    }
    HostDraft target(place(piece), piece.count * size_of(arena_->dtype()));
    if (piece.encoding == nullptr)
      convert_elements(source, piece.dtype, target.data(), arena_->dtype(), piece.count);
    else
      dequantise(*piece.encoding, piece.elements(), source, scales, arena_->dtype(), target.data());
    target.save();
  }
  void flush() {
    copy_ranges(copies_);
    copies_.clear();
    drafts_.clear();
  }
  /// Must be called when all pieces are written.
  void finish() const {
    if (quantiser_) quantiser_->finish();
  }

 private:
  void store(const Piece& piece, const std::byte* codes, const std::byte* scales) {
    const auto [unit, first] = arena_->plan().unit_element(arena_->rank(), piece.arena);
    arena_->stored()->store(unit, {first, first + piece.count}, piece.element, *piece.encoding, codes, scales,
                            {arena_->stored_data(unit), arena_->stored()->own_bytes(unit).begin});
  }
  void write_box(const Piece& piece, const std::byte* source) {
    const DType type = arena_->dtype();
    const MatrixPlace<const std::byte> lines{source, piece.dtype, piece.line_stride};
    if (!is_on_device_) {
      transpose_elements(lines, piece.lines, piece.length(), {place(piece), type, piece.row_stride});
      return;
    }
    const std::int64_t row_bytes = piece.lines * size_of(type);
    std::vector<std::byte>& draft =
        drafts_.emplace_back(static_cast<std::size_t>(piece.length() * row_bytes));
    transpose_elements(lines, piece.lines, piece.length(), {draft.data(), type, piece.lines});
    for (std::int64_t row = 0; row < piece.length(); ++row)
      copies_.push_back(
          {place(piece) + row * piece.row_stride * size_of(type), draft.data() + row * row_bytes, row_bytes});
  }

  const ShardArena* arena_;
  bool is_on_device_;
  std::optional<RowQuantiser> quantiser_;  ///< quantiser for the stored units of the arena, if it has any
  std::vector<CopiedRange> copies_;
  std::vector<std::vector<std::byte>> drafts_;  ///< elements of boxes that are being copied to a device
};

}  // namespace sluice
