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
#include "shard/rank_sets.hpp"

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
  const RankSets& sets;
  const LoadPlan& plan;
  ShardArena* arena;
  const std::filesystem::path& directory;
  const LoadOptions& options;
  /// The ranks of this rank's set, and its number among them.
  [[nodiscard]] Communicator& comm() const { return sets.own(); }
  [[nodiscard]] int rank() const { return comm().rank(); }
  /// Whether another rank of the set reads for this one, or this rank for itself; otherwise the counterpart in the
  /// set before passes on what it gets.
  [[nodiscard]] bool is_read_in_set() const { return !plan.passes_on() || sets.is_first(); }
  [[nodiscard]] bool reads() const { return is_read_in_set() && plan.readers().is_reader(rank()); }
  /// Whether this rank passes on what it gets to its counterpart in the next set.
  [[nodiscard]] bool passes_on() const { return plan.passes_on() && !sets.is_last(); }
  /// Begins to send bytes to the counterpart in the next set.
  [[nodiscard]] Work pass_on(const void* data, std::int64_t bytes) const {
    return sets.counterparts()->send(data, bytes, sets.number() + 1, kLoadTag);
  }
  [[nodiscard]] StagingRing ring() const {
    return {arena != nullptr && arena->is_on_device() ? MemoryKind::kPinned : MemoryKind::kPrivate,
            plan.slot_bytes(rank()), plan.slots(rank(), options.ring_slots)};
  }
};

/// Writes the elements of moves to their places in this rank's arena; does nothing without an arena. On a
/// device the moves are complete after flush(); until then the sources must not change.
class ArenaWriter {
 public:
  explicit ArenaWriter(const ShardArena* arena) : arena_(arena) {
    if (arena != nullptr && arena->stored() != nullptr) quantiser_.emplace(*arena);
  }

  [[nodiscard]] std::byte* place(const LoadMove& move) const {
    return arena_->data() + move.arena * size_of(arena_->dtype());
  }
  /// Writes a move from `source`. `scales`: the first scale that a move of codes needs.
  void write(const LoadMove& move, const std::byte* source, const std::byte* scales) {
    if (arena_ == nullptr) return;
    const bool is_stored = arena_->plan().is_stored_at(arena_->rank(), move.arena);
    if (is_stored && move.encoding == nullptr) return quantiser_->add(move, source);
    if (is_stored) return store(move, source, scales);
    if (move.is_box()) return write_box(move, source);
    if (arena_->is_on_device() && move.dtype == arena_->dtype() && move.encoding == nullptr) {
      copies_.push_back({place(move), source, move.bytes()});
      return;
    }
    HostDraft target(place(move), move.count * size_of(arena_->dtype()));
    if (move.encoding == nullptr)
      convert_elements(source, move.dtype, target.data(), arena_->dtype(), move.count);
    else
      dequantise(*move.encoding, move.elements(), source, scales, arena_->dtype(), target.data());
    target.save();
  }
  void flush() {
    copy_ranges(copies_);
    copies_.clear();
    drafts_.clear();
  }
  /// Must be called when all moves are written.
  void finish() const {
    if (quantiser_) quantiser_->finish();
  }

 private:
  void store(const LoadMove& move, const std::byte* codes, const std::byte* scales) {
    const auto [unit, first] = arena_->plan().unit_element(arena_->rank(), move.arena);
    arena_->stored()->store(unit, {first, first + move.count}, move.element, *move.encoding, codes, scales,
                            {arena_->stored_data(unit), arena_->stored()->own_bytes(unit).begin});
  }
  void write_box(const LoadMove& move, const std::byte* source) {
    const DType type = arena_->dtype();
    const MatrixPlace<const std::byte> lines{source, move.dtype, move.line_stride};
    if (!arena_->is_on_device()) {
      transpose_elements(lines, move.lines, move.length(), {place(move), type, move.row_stride});
      return;
    }
    const std::int64_t row_bytes = move.lines * size_of(type);
    std::vector<std::byte>& draft = drafts_.emplace_back(static_cast<std::size_t>(move.length() * row_bytes));
    transpose_elements(lines, move.lines, move.length(), {draft.data(), type, move.lines});
    for (std::int64_t row = 0; row < move.length(); ++row)
      copies_.push_back(
          {place(move) + row * move.row_stride * size_of(type), draft.data() + row * row_bytes, row_bytes});
  }

  const ShardArena* arena_;
  std::optional<RowQuantiser> quantiser_;  ///< quantiser for the stored units of the arena, if it has any
  std::vector<CopiedRange> copies_;
  std::vector<std::vector<std::byte>> drafts_;  ///< elements of boxes that are being copied to a device
};

}  // namespace sluice
