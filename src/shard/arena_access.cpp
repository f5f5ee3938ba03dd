#include "shard/arena_access.hpp"

namespace sluice {

void begin_pass(const ShardArena& arena, ArenaPass pass) {
  if (arena.paged() != nullptr) arena.paged()->begin_pass(pass);
  if (arena.elsewhere() != nullptr)
    arena.elsewhere()->begin_pass(pass == ArenaPass::kForward ? UnitBytes::Order::kForward
                                                              : UnitBytes::Order::kBackward);
}

StageAccess::StageAccess(const ShardArena& arena, const Stage& stage) : arena_(arena), stage_(stage) {
  if (arena_.paged() != nullptr) arena_.paged()->enter(stage_);
  for (const int unit : stage_.units)
    if (arena_.is_elsewhere(unit)) static_cast<void>(arena_.stored_data(unit));
}

StageAccess::~StageAccess() {
  if (arena_.paged() != nullptr) arena_.paged()->leave(stage_);
}

WholeAccess::WholeAccess(const ShardArena& arena, Access access) : arena_(arena) {
  if (arena_.paged() != nullptr) arena_.paged()->open_whole(access);
}

WholeAccess::~WholeAccess() {
  if (arena_.paged() != nullptr) arena_.paged()->close_whole();
}

PagedState::PagedState(const ShardArena& arena, std::byte* state, const std::vector<Range>& unit_bytes)
    : arena_(arena) {
  if (arena_.paged() != nullptr) arena_.paged()->add_state(state, unit_bytes);
}

PagedState::~PagedState() {
  if (arena_.paged() != nullptr) arena_.paged()->stop();
}

void settle_pages(const ShardArena& arena) {
  if (arena.paged() != nullptr) arena.paged()->settle();
}

const std::byte* settled_bytes(const ShardArena& arena, const std::byte* data, std::int64_t bytes,
                               std::span<std::byte> buffer) {
  return arena.paged() == nullptr ? data : arena.paged()->bytes_of(data, bytes, buffer);
}

}  // namespace sluice
