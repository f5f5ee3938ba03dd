// The one block that holds a rank's shards, allocated once at its final size, and beside it the few numbers
// that every rank holds whole.
#pragma once

#include "base/dtype.hpp"
#include "device/memory.hpp"
#include "shard/offload_plan.hpp"
#include "shard/shard_plan.hpp"
#include "shard/stored/stored_layout.hpp"
#include "shard/stored/unit_bytes.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace sluice {

class OffloadedUnits;

/// A rank's shard of every unit, one after the other as the plan says, in one element type, and beside
/// them those of stored units as codes and scales. Weights live in one; gradients in one of its own, which
/// has trained units alone.
///
/// An arena is resident: all of it is in memory; or paged: some units lie in a file, and in memory while an
/// access of shard/arena_access.hpp to them lives; or some stored units are elsewhere: in the files that
/// they were published in, which are read wherever such a unit is used.
class ShardArena {
 public:
  enum class Units : bool { kAll, kTrained };

  /// Allocated in `memory`; in a device's, host code reads and writes by device/copy.hpp. `plan` must outlive
  /// the arena. `purpose` names it in error messages ("weights"). `stored`: the tensors of the plan's
  /// stored units, not null if there are any; it need not outlive the arena. `elsewhere`, ascending: those of
  /// these units that take no memory here, and come from read_from().
  ShardArena(const ShardPlan& plan, int rank, DType dtype, MemoryKind memory, std::string_view purpose,
             Units units = Units::kAll, const StoredTensors* stored = nullptr,
             std::span<const int> elsewhere = {});
  ShardArena(ShardArena&& other) noexcept;
  ~ShardArena();

  /// Makes an untouched arena a paged one: the units of `plan` lie in an unnamed file in `directory`. Until
  /// the first begin_pass() all of them can be written, as they are loaded or initialised. `limit_seconds`:
  /// how long an access waits for the disk at most. Errors as PagedFile; Error(kBadConfig) in a device's
  /// memory.
  void page_to(const OffloadPlan& plan, const std::filesystem::path& directory, double limit_seconds);
  /// Sets the source of the units that are elsewhere.
  void read_from(std::unique_ptr<UnitBytes> units) { elsewhere_ = std::move(units); }
  [[nodiscard]] bool is_resident() const { return paged_ == nullptr && elsewhere_ == nullptr; }
  /// The units in the arena's file, for the accesses of shard/arena_access.hpp; null in an arena that is not
  /// paged.
  [[nodiscard]] OffloadedUnits* paged() const { return paged_.get(); }
  /// The source of the units that are elsewhere, for the accesses of shard/arena_access.hpp; null if there
  /// are no such units.
  [[nodiscard]] UnitBytes* elsewhere() const { return elsewhere_.get(); }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] MemoryKind memory() const { return memory_; }
  [[nodiscard]] bool is_on_device() const { return memory_ == MemoryKind::kDevice; }
  [[nodiscard]] const ShardPlan& plan() const { return plan_; }
  [[nodiscard]] std::byte* data() const { return block_.data(); }
  /// Bytes of the rank's shards, including stored ones.
  [[nodiscard]] std::int64_t bytes() const { return block_.bytes() + stored_block_.bytes(); }
  /// The model's persistent buffers as UnitLayouts::buffers places them, float32 whatever dtype() is: the
  /// same numbers on every rank, in memory(). None beside an arena of trained units alone.
  [[nodiscard]] float* buffers() const { return reinterpret_cast<float*>(buffers_.data()); }
  [[nodiscard]] std::int64_t buffer_elements() const { return buffers_.bytes() / size_of(DType::kFloat32); }
  [[nodiscard]] bool holds(int unit) const { return units_ == Units::kAll || plan_.is_trained(unit); }
  /// Whether a stored unit takes no memory in this arena.
  [[nodiscard]] bool is_elsewhere(int unit) const {
    return stored_ != nullptr && plan_.is_stored(unit) && stored_->is_elsewhere(unit);
  }
  /// Where codes and scales of stored units lie; null if there are none.
  [[nodiscard]] const StoredLayout* stored() const { return stored_.get(); }
  /// First byte of this rank's shard of a stored unit. A unit that is elsewhere is read first, and stays in
  /// memory until another such unit is asked for; errors as UnitBytes::bytes().
  [[nodiscard]] std::byte* stored_data(int unit) const {
    return stored_->is_elsewhere(unit) ? elsewhere_->bytes(unit)
                                       : stored_block_.data() + stored_->begin_of(unit);
  }
  /// First byte of this rank's shard of a unit that the arena holds and that is not stored, and its length in
  /// elements.
  [[nodiscard]] std::byte* unit_data(int unit) const;
  [[nodiscard]] std::int64_t unit_elements(int unit) const;

 private:
  const ShardPlan& plan_;
  int rank_;
  DType dtype_;
  MemoryKind memory_;
  Units units_;
  MemoryBlock block_, buffers_, stored_block_;
  std::unique_ptr<const StoredLayout> stored_;
  std::unique_ptr<UnitBytes> elsewhere_;
  /// Units in the arena's file; declared last because its threads use the block.
  std::unique_ptr<OffloadedUnits> paged_;
};

}  // namespace sluice
