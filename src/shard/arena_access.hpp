// Access to the units of an arena, for as long as an object lives. In a resident arena none of this does
// anything.
#pragma once

#include "io/paged_file.hpp"
#include "shard/arena.hpp"
#include "shard/offloaded_units.hpp"
#include "shard/stage_plan.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace sluice {

/// Begins a pass over the layers: StageAccess follows for its stages, in their order or, backward, in the
/// opposite one. What was loaded or restored since the last pass is on the disk afterwards. No WholeAccess
/// may live. Error(kIo) for what the disk refuses.
void begin_pass(const ShardArena& arena, ArenaPass pass);

/// The units of a stage, and in an update the optimizer's state of them, in memory.
class StageAccess {
 public:
  /// Waits until they are there, and begins to read those that come next in the pass. Errors as
  /// PagedFile::acquire().
  StageAccess(const ShardArena& arena, const Stage& stage);
  ~StageAccess();
  StageAccess(const StageAccess&) = delete;
  StageAccess& operator=(const StageAccess&) = delete;

 private:
  const ShardArena& arena_;
  const Stage& stage_;
};

/// All units, and the optimizer's state, between passes and in any order: to save, restore or export them.
class WholeAccess {
 public:
  using Access = PagedFile::Access;

  WholeAccess(const ShardArena& arena, Access access);
  ~WholeAccess();
  WholeAccess(const WholeAccess&) = delete;
  WholeAccess& operator=(const WholeAccess&) = delete;

 private:
  const ShardArena& arena_;
};

/// The optimizer's state as a part of what is paged, until this goes.
class PagedState {
 public:
  /// `state` is zero and not touched yet; `unit_bytes` are the bytes of each unit in it. Both arena and state
  /// must outlive this.
  PagedState(const ShardArena& arena, std::byte* state, const std::vector<Range>& unit_bytes);
  ~PagedState();
  PagedState(const PagedState&) = delete;
  PagedState& operator=(const PagedState&) = delete;

 private:
  const ShardArena& arena_;
};

/// Between passes: what the last update has changed is on the disk. Error(kIo) as PagedFile::finish().
void settle_pages(const ShardArena& arena);
/// Where to read the bytes of the arena, or of its paged state, that belong at `data`: there, or in `buffer`,
/// which was filled from the disk as PagedFile::peek() says. For a thread beside the passes, from
/// settle_pages() on until their unit is updated.
[[nodiscard]] const std::byte* settled_bytes(const ShardArena& arena, const std::byte* data,
                                             std::int64_t bytes, std::span<std::byte> buffer);

}  // namespace sluice
