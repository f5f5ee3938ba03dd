// Scoped access to the units of an arena: a unit stays in memory for as long as the access object lives. In a
// resident arena an access does nothing.
#pragma once

#include "io/paged_file.hpp"
#include "shard/arena.hpp"
#include "shard/offloaded_units.hpp"
#include "shard/stage_plan.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace sluice {

/// Begins a pass over the layers: a StageAccess of each stage follows, in the order of the stages or,
/// backward, in the opposite order. Weights that were loaded or restored since the last pass are on the disk
/// afterwards. No WholeAccess may live. Error(kIo) if the disk fails.
void begin_pass(const ShardArena& arena, ArenaPass pass);

/// Keeps the units of a stage in memory, and during an update their optimizer state as well.
class StageAccess {
 public:
  /// Waits until the stage's units are in memory, and begins to read the units that come next in the pass.
  /// Errors as PagedFile::acquire().
  StageAccess(const ShardArena& arena, const Stage& stage);
  ~StageAccess();
  StageAccess(const StageAccess&) = delete;
  StageAccess& operator=(const StageAccess&) = delete;

 private:
  const ShardArena& arena_;
  const Stage& stage_;
};

/// Keeps all units and the optimizer's state accessible between passes and in any order: to save, restore or
/// export them.
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

/// Pages the optimizer's state together with the weights for as long as the object lives.
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

/// Writes to the disk what the last update has changed. Called between passes. Error(kIo) as
/// PagedFile::finish().
void settle_pages(const ShardArena& arena);
/// Address at which the bytes of the arena, or of its paged state, that belong at `data` can be read: `data`
/// itself, or `buffer`, filled from the disk as PagedFile::peek() does. For a thread that runs beside the
/// passes, from settle_pages() on until the unit is updated.
[[nodiscard]] const std::byte* settled_bytes(const ShardArena& arena, const std::byte* data,
                                             std::int64_t bytes, std::span<std::byte> buffer);

}  // namespace sluice
