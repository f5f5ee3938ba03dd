// Shard plan: the part of each unit that each rank owns. Computed on every rank without communication.
#pragma once

#include "base/digest.hpp"
#include "base/range.hpp"
#include "base/wire_formats.hpp"
#include "shard/flat_layout.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace sluice {

/// How ranks are divided: into sets of `world` consecutive ranks that hold the model once, and each set into
/// groups of `expert_parallel` consecutive ranks that together have all experts of a layer. A rank's place in
/// its group says which experts it has; ranks of equal place are replicas, which shard and gather the same
/// experts. With 1 every rank works with all experts, gathered like dense units; with the size of the set no
/// expert is gathered. Plans of shards number the ranks of one set from 0.
struct ParallelDims {
  int world = 1;  ///< ranks of a set
  int expert_parallel = 1;
  int replicas = 1;  ///< sets, each with a copy of the model
  WireFormats wire{};

  /// Ranks of all sets.
  [[nodiscard]] int ranks() const { return world * replicas; }
  /// The set of a rank among those of all sets, and its number in that set.
  [[nodiscard]] int set(int rank) const { return rank / world; }
  [[nodiscard]] int member(int rank) const { return rank % world; }
  [[nodiscard]] int groups() const { return world / expert_parallel; }
  [[nodiscard]] int group(int rank) const { return rank / expert_parallel; }
  [[nodiscard]] int place(int rank) const { return rank % expert_parallel; }
};

/// Alignment of shards in an arena, and of optimizer state in its block.
enum class ShardAlignment : std::uint8_t {
  kLines,
  kPages,  ///< alignment to pages, so that a unit can be paged to a disk by itself
};

/// What becomes of dense units that are not trained, once they were gathered: units of trained weights change.
enum class FrozenUnits : bool {
  kGathered,  ///< they are gathered again whenever they are needed
  kKept,      ///< every rank keeps them whole
};

class ShardPlan {
 public:
  /// Cuts every dense unit into `dims.world` shards as equal as granules allow. Each place of a group gets
  /// whole experts of a layer, their numbers differing by at most one; its replicas get shards of those.
  /// `layouts` must outlive the plan. Error(kBadConfig) if groups do not divide the world.
  ShardPlan(const UnitLayouts& layouts, ParallelDims dims, ShardAlignment alignment = ShardAlignment::kLines,
            FrozenUnits frozen = FrozenUnits::kGathered);

  [[nodiscard]] int world() const { return dims_.world; }
  [[nodiscard]] const ParallelDims& dims() const { return dims_; }
  [[nodiscard]] const UnitLayouts& layouts() const { return layouts_; }

  /// Number that stands for the trained float32 parameters where units are numbered, behind all units. Every
  /// rank owns them all, and their elements are those of UnitLayouts::trained_buffers. Only is_trained(),
  /// owned() and sharers() take this number.
  [[nodiscard]] int whole_unit() const { return static_cast<int>(layouts_.units.size()); }

  /// Whether a unit is a layer's experts; the others are dense.
  [[nodiscard]] bool has_experts(int unit) const;
  /// Elements of a unit's buffer that a rank owns; may be empty.
  [[nodiscard]] Range owned(int unit, int rank) const;
  /// Whether each rank computes with its own rows of a unit (UnitLayouts::is_by_rows()), and several share it.
  [[nodiscard]] bool is_by_rows(int unit) const { return sharers(unit) > 1 && layouts_.is_by_rows(unit); }
  /// Whether ranks gather a unit to compute with it, and reduce its gradients.
  [[nodiscard]] bool is_gathered(int unit) const { return sharers(unit) > 1 && !layouts_.is_by_rows(unit); }
  /// Rows of a unit by rows that a rank owns.
  [[nodiscard]] Range owned_rows(int unit, int rank) const;
  /// Elements of a unit's buffer that a rank computes with: all of a dense unit; of a unit of experts those
  /// of the rank's place in its group; of a unit by rows its own.
  [[nodiscard]] Range gathered_range(int unit, int rank) const;
  /// Blocks of a tensor in gathered_range(): its experts, or its only block.
  [[nodiscard]] Range held_blocks(int tensor, int rank) const;
  /// Number of ranks that hold the same part of a unit, or have it between them by rows, each owning a shard of it.
  /// With one, the rank owns all that it holds.
  [[nodiscard]] int sharers(int unit) const;
  /// Whether training changes a unit.
  [[nodiscard]] bool is_trained(int unit) const;
  /// Whether ranks keep a unit whole once it was gathered.
  [[nodiscard]] bool is_kept(int unit) const;
  /// Whether shards keep a unit as codes and scales.
  [[nodiscard]] bool is_stored(int unit) const;
  /// An element of a unit's buffer.
  struct UnitElement {
    int unit = -1;
    std::int64_t element = 0;
  };
  /// The unit, and the element in the unit's buffer, of an element of a rank's arena. The element must belong
  /// to a unit.
  [[nodiscard]] UnitElement unit_element(int rank, std::int64_t arena) const;
  /// First element of a rank's shard of a unit in that rank's arena, in which trained units come first;
  /// aligned to alignment() elements. Stored units have numbers that no element of the arena has: they go on
  /// from arena_elements().
  [[nodiscard]] std::int64_t arena_offset(int unit, int rank) const;
  /// Whether a number such as OwnedRun's arena element is one of a stored unit, as arena_offset() numbers
  /// them.
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

  /// Consecutive elements of one tensor that one rank owns, and where they lie in its arena.
  struct OwnedRun {
    std::int64_t tensor_begin = 0;
    std::int64_t arena_begin = 0;
    std::int64_t count = 0;
  };
  /// Calls visit(rank, run) with the runs of one owner each that make up the elements of a manifest tensor,
  /// in the tensor's order.
  void owned_runs(int tensor, Range elements,
                  const std::function<void(int rank, const OwnedRun&)>& visit) const;
  /// Calls `visit` with the runs that `rank` owns, among `elements` of the tensor or, without these, in all
  /// of it.
  void owned_runs(int tensor, Range elements, int rank,
                  const std::function<void(const OwnedRun&)>& visit) const;
  void owned_runs(int tensor, int rank, const std::function<void(const OwnedRun&)>& visit) const;

  /// Digest of which elements each rank owns and where they lie in the arenas.
  [[nodiscard]] Digest digest() const;

  [[nodiscard]] std::int64_t alignment() const { return alignment_ == ShardAlignment::kLines ? 32 : 2048; }
  [[nodiscard]] bool has_pages() const { return alignment_ == ShardAlignment::kPages; }

 private:
  /// Calls `visit` with the runs of a tensor's elements that lie in `part` of its unit.
  void visit_runs(int tensor, Range elements, Range part,
                  const std::function<void(int rank, const OwnedRun&)>& visit) const;
  /// Number of a rank's shard among the shards of a unit, in the order of the buffer; and the inverse.
  [[nodiscard]] int shard_of(int unit, int rank) const;
  [[nodiscard]] int rank_of(int unit, int shard) const;
  void cut(int unit);
  void cut_rows(const FlatLayout& unit);
  template <class IsPlaced>
  void place(IsPlaced is_placed);

  const UnitLayouts& layouts_;
  ParallelDims dims_;
  ShardAlignment alignment_;
  FrozenUnits frozen_;
  /// Borders of shards in each unit's buffer, in its order: [unit][world + 1].
  std::vector<std::int64_t> cuts_;
  std::vector<std::int64_t> offsets_;  ///< arena_offset() of each unit on each rank: [unit][world]
  std::vector<std::int64_t> held_elements_, arena_elements_, trained_elements_;
};

}  // namespace sluice
