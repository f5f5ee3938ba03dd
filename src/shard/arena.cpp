#include "shard/arena.hpp"

#include "base/error.hpp"
#include "shard/offloaded_units.hpp"

namespace sluice {

ShardArena::ShardArena(const ShardPlan& plan, int rank, DType dtype, MemoryKind memory,
                       std::string_view purpose, Units units, const StoredTensors* stored,
                       std::span<const int> elsewhere)
    : plan_(plan),
      rank_(rank),
      dtype_(dtype),
      memory_(memory),
      units_(units),
      block_(allocate(
          memory,
          (units == Units::kAll ? plan.arena_elements(rank) : plan.trained_elements(rank)) * size_of(dtype),
          purpose)) {
  const std::int64_t elements = units == Units::kAll ? plan.layouts().buffer_elements() : 0;
  if (elements > 0) buffers_ = allocate(memory, elements * size_of(DType::kFloat32), "buffers");
  if (stored == nullptr || stored->is_empty()) return;
  stored_ = std::make_unique<const StoredLayout>(plan, *stored, rank, elsewhere);
  stored_block_ = allocate(memory, stored_->bytes(), purpose);
}

ShardArena::ShardArena(ShardArena&& other) noexcept = default;
ShardArena::~ShardArena() = default;

void ShardArena::page_to(const OffloadPlan& plan, const std::filesystem::path& directory,
                         double limit_seconds) {
  paged_ = std::make_unique<OffloadedUnits>(*this, plan, directory, limit_seconds);
}

std::byte* ShardArena::unit_data(int unit) const {
  SLUICE_ASSERT(!plan_.is_stored(unit), "a stored unit has no elements in an arena");
  return block_.data() + plan_.arena_offset(unit, rank_) * size_of(dtype_);
}

std::int64_t ShardArena::unit_elements(int unit) const { return plan_.owned(unit, rank_).count(); }

}  // namespace sluice
