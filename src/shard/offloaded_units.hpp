// The units of a paged arena between memory and disk, along the passes over the layers. Used by
// shard/arena_access.hpp alone.
#pragma once

#include "base/range.hpp"
#include "io/paged_file.hpp"
#include "shard/arena.hpp"
#include "shard/offload_plan.hpp"
#include "shard/stage_plan.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace sluice {

/// What the stages of a pass over the layers are bound for.
enum class ArenaPass : std::uint8_t {
  kForward,
  kNorm,    ///< backward, to know the norm of the gradients
  kUpdate,  ///< backward, and the weights are updated
};

class OffloadedUnits {
 public:
  /// The file of `plan` in `directory`, to which weights go as they are loaded or drawn: mapped, as PagedFile
  /// calls it. `weights` is not touched yet and must outlive this. Errors as PagedFile.
  OffloadedUnits(const ShardArena& weights, const OffloadPlan& plan, const std::filesystem::path& directory,
                 double limit_seconds);

  /// Takes the state of the optimizer in, all zero: `unit_bytes` of `state` are those of each unit. It must
  /// outlive this, or the call of stop().
  void add_state(std::byte* state, const std::vector<Range>& unit_bytes);
  void stop() { file_.stop(); }

  /// Begins an access to all of the arena and the state, in any order and between passes, as
  /// PagedFile::map(). Accesses nest.
  void open_whole(PagedFile::Access access) {
    file_.map(access);
    ++whole_accesses_;
  }
  void close_whole() { --whole_accesses_; }

  /// Between passes: what the last update has changed is on the disk.
  void settle() { file_.finish(); }
  /// Address at which the bytes that belong at `data` can be read: there, or if they lie on the disk in
  /// `buffer`, which is filled with them as PagedFile::peek() does. For a thread beside the passes, from
  /// settle() on until their unit is updated.
  [[nodiscard]] const std::byte* bytes_of(const std::byte* data, std::int64_t bytes,
                                          std::span<std::byte> buffer) const;

  /// What the stages from here on are entered for, in their order or, backward, in the opposite one. No
  /// access to the whole is open.
  void begin_pass(ArenaPass pass);
  /// Waits until the stage's shards are in memory, and begins to read what will be needed next. Errors as
  /// PagedFile::acquire().
  void enter(const Stage& stage);
  void leave(const Stage& stage);

  [[nodiscard]] const PagedFile& file() const { return file_; }

 private:
  struct Regions {
    int weights = -1;
    int state = -1;
    bool is_trained = false;
  };

  [[nodiscard]] bool is_offloaded(int unit) const {
    return plan_.units[static_cast<std::size_t>(unit)].any();
  }
  [[nodiscard]] bool uses_state(const Regions& regions) const {
    return regions.state >= 0 && pass_ == ArenaPass::kUpdate;
  }
  void add(int& region, std::span<std::byte> memory);
  /// The next unit of the pass that lies on the disk; -1 for none.
  [[nodiscard]] int next_after(int unit) const;

  OffloadPlan plan_;
  std::vector<Regions> regions_;
  std::vector<std::span<const std::byte>> places_;  ///< in memory, of each region of the file
  ArenaPass pass_ = ArenaPass::kForward;
  int whole_accesses_ = 0;
  PagedFile file_;
};

}  // namespace sluice
