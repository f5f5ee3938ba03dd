// Stored units that are not kept in memory: their codes stay in the files of the checkpoint, and are read
// whenever they are used.
#pragma once

#include "device/memory.hpp"
#include "io/blocks/workers.hpp"
#include "io/file.hpp"
#include "load/in_files/unit_reads.hpp"
#include "manifest/manifest.hpp"
#include "shard/stored/stored_layout.hpp"
#include "shard/stored/unit_bytes.hpp"
#include "weights/checkpoint_index.hpp"
#include "weights/checkpoint_match.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Units in files, with two slots of memory, each as large as the rank's largest shard of such a unit: one
/// for the unit in use, and one into which a thread reads the unit that follows in the order of the pass.
/// Files are read directly, past the page cache; where the file system has no direct reads, through the cache
/// and out of it again. Scales stay in memory.
class UnitsInFiles final : public UnitBytes {
 public:
  /// Opens the files in `directory` and reads the scales. `units`: units of `layout`, ascending, whose codes
  /// lie in the files as `index` and `match` say. `limit_seconds`: how long bytes() waits for the disk at
  /// most. `layout` and `manifest` must outlive this object. Errors as open_source(), and Error(kIo).
  UnitsInFiles(const StoredLayout& layout, const ParameterManifest& manifest, const CheckpointIndex& index,
               const CheckpointMatch& match, const std::filesystem::path& directory,
               std::span<const int> units, double limit_seconds);

  void begin_pass(Order order) override;
  void examine_first(std::function<void(int unit, const std::byte* bytes)> examine) override;
  /// Error(kBadData) with file and tensor if a file has become shorter, or holds other codes than when they
  /// were first read; Error(kIo) if a read fails, or if the disk does not answer in time.
  [[nodiscard]] std::byte* bytes(int unit) override;

  /// Bytes read so far, including the rest of blocks that are read whole.
  [[nodiscard]] std::int64_t read_bytes() const;

 private:
  static constexpr int kNone = -1;
  struct Slot {
    MemoryBlock block;
    int unit = kNone;      ///< unit that the slot holds, or that is being read into it
    bool is_there = true;  ///< whether the slot's unit is complete, with no read in flight
  };
  struct File {
    InputFile file;
    bool is_direct = false;
  };

  void open_files(const CheckpointIndex& index, const std::filesystem::path& directory);
  void read_scales(const CheckpointIndex& index, const std::filesystem::path& directory, int unit);
  /// The slot that has the unit; begins to read the unit if no slot has it. The caller holds the lock, which
  /// is released while it waits.
  Slot& slot_for(Workers::Lock& lock, int unit);
  void start_reading(Slot& slot, int unit);
  void wait(Workers::Lock& lock, const Slot& slot);
  /// The unit that follows in the order of the pass; kNone at the end of the pass.
  [[nodiscard]] int next_after(int unit) const;
  [[nodiscard]] Workers::Task next_read();
  void read_unit(int unit, std::byte* out);
  void copy_scales(const UnitReads& reads, std::byte* out) const;
  void require_unchanged(UnitReads& reads, const std::vector<Digest>& digests) const;
  void read_blocks(const UnitReads& reads, const DirectRead& read);
  [[nodiscard]] std::string path_of(const UnitReads& reads, int run) const;
  [[nodiscard]] std::string tensor_of(const UnitReads& reads, int run) const;

  const StoredLayout& layout_;
  const ParameterManifest& manifest_;
  double limit_seconds_;
  std::vector<int> units_;
  std::map<int, UnitReads> reads_;  ///< reads of each unit
  std::vector<std::function<void(int unit, const std::byte* bytes)>> examinations_;
  std::map<int, File> files_;  ///< files that hold codes, by their indices in the checkpoint's index
  MemoryBlock scales_, blocks_;
  std::array<Slot, 2> slots_;
  int current_ = kNone;  ///< unit in use; kNone: none
  Order order_ = Order::kForward;
  Slot* asked_ = nullptr;  ///< slot that waits for the reading thread; null: none
  std::int64_t read_bytes_ = 0;
  /// Reading thread, declared last because it uses the other members; its lock guards the slots and `asked_`.
  Workers workers_;
};

}  // namespace sluice
