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

/// What a pass over the layers is made for.
enum class ArenaPass : std::uint8_t {
  kForward,
  kNorm,    ///< backward pass for the norm of the gradients
  kUpdate,  ///< backward pass in which the weights are updated
};

class OffloadedUnits {
 public:
  /// The file of `plan` in `directory`, to which weights go as they are loaded or drawn: mapped, as PagedFile
  /// calls it. `weights` is not touched yet and must outlive this. Errors as PagedFile.
  OffloadedUnits(const ShardArena& weights, const OffloadPlan& plan, const std::filesystem::path& directory,
                 double limit_seconds);

  /// Adds the optimizer's state, all zero: `unit_bytes` are the bytes of each unit in `state`. The state must
  /// outlive this object, or the call of stop().
  void add_state(std::byte* state, const std::vector<Range>& unit_bytes);
  void stop() { file_.stop(); }

  /// Begins an access to all of the arena and the state, in any order and between passes, as
  /// PagedFile::map(). Accesses nest.
  void open_whole(PagedFile::Access access) {
    file_.map(access);
    ++whole_accesses_;
  }
  void close_whole() { --whole_accesses_; }

  /// Writes to the disk what the last update has changed. Called between passes.
  void settle() { file_.finish(); }
  /// Address at which the bytes that belong at `data` can be read: `data` itself, or `buffer`, filled from
  /// the disk as PagedFile::peek() does. For a thread that runs beside the passes, from settle() on until the
  /// unit is updated.
  [[nodiscard]] const std::byte* bytes_of(const std::byte* data, std::int64_t bytes,
                                          std::span<std::byte> buffer) const;

  /// Begins a pass: stages are entered in their order or, backward, in the opposite order. No access to the
  /// whole may be open.
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
  /// The next unit of the pass that lies on the disk; -1: no more in this pass.
  [[nodiscard]] int next_after(int unit) const;

  OffloadPlan plan_;
  std::vector<Regions> regions_;
  std::vector<std::span<const std::byte>> places_;  ///< place in memory of each region of the file
  ArenaPass pass_ = ArenaPass::kForward;
  int whole_accesses_ = 0;
  PagedFile file_;
};

}  // namespace sluice
