// Shard plan: the part of each unit that each rank owns. Computed on every rank without communication.
#pragma once

#include "base/digest.hpp"
#include "base/range.hpp"
#include "shard/flat_layout.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace sluice {

/// How the world is divided: into groups of `expert_parallel` consecutive ranks, each of which has all
/// experts of a layer. A rank's place in its group says which; ranks of equal place are replicas, among which
/// those experts are sharded and gathered. 1: every rank works with all experts, gathered like dense units.
/// The world: no expert is gathered.
struct ParallelDims {
  int world = 1;
  int expert_parallel = 1;

  [[nodiscard]] int groups() const { return world / expert_parallel; }
  [[nodiscard]] int group(int rank) const { return rank / expert_parallel; }
  [[nodiscard]] int place(int rank) const { return rank % expert_parallel; }
};

/// Alignment of shards in an arena, and of state in its block.
enum class ShardAlignment : std::uint8_t {
  kLines,
  kPages,  ///< pages, so that a unit may be paged to a disk by itself
};

class ShardPlan {
 public:
  /// Cuts every dense unit into `dims.world` shards as equal as granules allow. Each place of a group gets
  /// whole experts of a layer, their numbers differing by at most one; its replicas get shards of those.
  /// `layouts` must outlive the plan. Error(kBadConfig) if groups do not divide the world.
  ShardPlan(const UnitLayouts& layouts, ParallelDims dims, ShardAlignment alignment = ShardAlignment::kLines);

  [[nodiscard]] int world() const { return dims_.world; }
  [[nodiscard]] const ParallelDims& dims() const { return dims_; }
  [[nodiscard]] const UnitLayouts& layouts() const { return layouts_; }

  /// Whether a unit is a layer's experts; the others are dense.
  [[nodiscard]] bool has_experts(int unit) const;
  /// The part of a unit's buffer that a rank owns, in elements of that buffer. May be empty.
  [[nodiscard]] Range owned(int unit, int rank) const;
  /// The part of a unit's buffer that a rank computes with: all of a dense unit; the experts of its place.
  [[nodiscard]] Range gathered_range(int unit, int rank) const;
  /// The blocks of a tensor that lie there.
  [[nodiscard]] Range held_blocks(int tensor, int rank) const;
  /// How many ranks hold the same part, each owning a shard of it. With one, what is held is owned.
  [[nodiscard]] int sharers(int unit) const;
  /// Whether training changes a unit.
  [[nodiscard]] bool is_trained(int unit) const;
  /// Whether shards keep a unit as codes and scales.
  [[nodiscard]] bool is_stored(int unit) const;
  /// An element of a unit's buffer.
  struct UnitElement {
    int unit = -1;
    std::int64_t element = 0;
  };
  /// What an element of a rank's arena is, which belongs to a unit.
  [[nodiscard]] UnitElement unit_element(int rank, std::int64_t arena) const;
  /// First element of a rank's shard of a unit inside that rank's arena, in which trained units come first;
  /// aligned to alignment() elements. Of a stored unit a place behind all elements: from arena_elements() on,
  /// numbered alike.
  [[nodiscard]] std::int64_t arena_offset(int unit, int rank) const;
  /// Whether an element of a rank's arena, such as an OwnedRun begins at, is such a place.
  [[nodiscard]] bool is_stored_at(int rank, std::int64_t arena) const {
    return arena >= arena_elements(rank);
  }
  /// Elements of a rank's shards, whether they lie in the arena or are stored.
  [[nodiscard]] std::int64_t held_elements(int rank) const;
  /// Elements of a rank's arena.
  [[nodiscard]] std::int64_t arena_elements(int rank) const;
  /// Elements of a rank's trained units, with which its arena begins.
  [[nodiscard]] std::int64_t trained_elements(int rank) const;
  /// Elements owned by each of the ranks that hold what `rank` does, in rank order: the counts of a gather or
  /// reduce-scatter of the unit among them.
  [[nodiscard]] std::vector<std::int64_t> counts(int unit, int rank) const;
  /// Rank that owns an element of a unit's buffer.
  [[nodiscard]] int owner(int unit, std::int64_t element) const;

  /// Consecutive elements of one tensor that lie in a rank's arena.
  struct OwnedRun {
    std::int64_t tensor_begin = 0;
    std::int64_t arena_begin = 0;
    std::int64_t count = 0;
  };
  /// Calls visit(rank, run) with what elements of a manifest tensor become: runs of one owner each, in the
  /// tensor's order. Together they are all of them.
  void owned_runs(int tensor, Range elements,
                  const std::function<void(int rank, const OwnedRun&)>& visit) const;
  /// Calls `visit` with those that `rank` owns; without `elements` of the whole tensor.
  void owned_runs(int tensor, Range elements, int rank,
                  const std::function<void(const OwnedRun&)>& visit) const;
  void owned_runs(int tensor, int rank, const std::function<void(const OwnedRun&)>& visit) const;

  /// Digest of what every rank owns, and where it lies in the arenas.
  [[nodiscard]] Digest digest() const;

  [[nodiscard]] std::int64_t alignment() const { return alignment_ == ShardAlignment::kLines ? 32 : 2048; }
  [[nodiscard]] bool has_pages() const { return alignment_ == ShardAlignment::kPages; }

 private:
  /// Calls `visit` with what elements of a tensor become that lie in `part` of its unit.
  void visit_runs(int tensor, Range elements, Range part,
                  const std::function<void(int rank, const OwnedRun&)>& visit) const;
  /// Number of a rank's shard among those of a unit, in the order of the buffer; and the way back.
  [[nodiscard]] int shard_of(int unit, int rank) const;
  [[nodiscard]] int rank_of(int unit, int shard) const;
  void cut(const FlatLayout& unit);
  template <class IsPlaced>
  void place(IsPlaced is_placed);

  const UnitLayouts& layouts_;
  ParallelDims dims_;
  ShardAlignment alignment_;
  std::vector<std::int64_t> cuts_;     ///< [unit][world + 1], in the order of the buffer
  std::vector<std::int64_t> offsets_;  ///< [unit][world]
  std::vector<std::int64_t> held_elements_, arena_elements_, trained_elements_;
};

}  // namespace sluice
