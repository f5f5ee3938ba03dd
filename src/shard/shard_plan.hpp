// Which rank owns which part of which unit. Computed on every rank without communication.
#pragma once

#include "base/dtype.hpp"
#include "shard/flat_layout.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace sluice {

/// How the world is divided. expert_parallel = 1: experts are sharded and gathered like dense units.
struct ParallelDims {
  int world = 1;
  int expert_parallel = 1;
};

/// Elements [begin, end).
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t count() const { return end - begin; }
};

class ShardPlan {
 public:
  /// Cuts every unit into `dims.world` shards as equal as granules allow. `layouts` must outlive the plan.
  ShardPlan(const UnitLayouts& layouts, ParallelDims dims);

  [[nodiscard]] int world() const { return dims_.world; }
  [[nodiscard]] const UnitLayouts& layouts() const { return layouts_; }

  /// The part of a unit's buffer that a rank owns, in elements of that buffer. May be empty.
  [[nodiscard]] Range owned(int unit, int rank) const;
  /// First element of a rank's shard of a unit inside that rank's arena; aligned to kArenaAlignment elements.
  [[nodiscard]] std::int64_t arena_offset(int unit, int rank) const;
  /// Elements of a rank's arena.
  [[nodiscard]] std::int64_t arena_elements(int rank) const;
  /// Elements owned by each rank, in rank order: the counts of a gather or reduce-scatter of the unit.
  [[nodiscard]] std::vector<std::int64_t> counts(int unit) const;
  /// Rank that owns an element of a unit's buffer.
  [[nodiscard]] int owner(int unit, std::int64_t element) const;

  /// Consecutive elements of one tensor that lie in a rank's arena.
  struct OwnedRun {
    std::int64_t tensor_begin = 0;
    std::int64_t arena_begin = 0;
    std::int64_t count = 0;
  };
  /// Calls `visit` with every part of a placed tensor that `rank` owns, in the tensor's order.
  void for_each_owned_run(int unit, const Placement& placement, int rank,
                          const std::function<void(const OwnedRun&)>& visit) const;
  /// The same for a part of the tensor.
  void for_each_owned_run(int unit, const Placement& placement, Range elements, int rank,
                          const std::function<void(const OwnedRun&)>& visit) const;

  static constexpr std::int64_t kArenaAlignment = 32;  ///< elements: 64 bytes of bfloat16

 private:
  const UnitLayouts& layouts_;
  ParallelDims dims_;
  std::vector<std::int64_t> cuts_;     ///< [unit][world + 1]
  std::vector<std::int64_t> offsets_;  ///< [unit][world]
  std::vector<std::int64_t> arena_elements_;
};

}  // namespace sluice
