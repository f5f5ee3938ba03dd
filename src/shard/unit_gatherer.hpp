// All-gathers the units of one stage at a time, and prefetches the dense units of the next stage. Units that the
// shard plan keeps are gathered once.
#pragma once

#include "device/stream.hpp"
#include "shard/arena.hpp"
#include "shard/double_ended_buffer.hpp"
#include "shard/rank_mesh.hpp"
#include "shard/row_exchange.hpp"
#include "shard/stage_plan.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace sluice {

/// Gathers units into memory that is allocated once: it does not grow from step to step.
class UnitGatherer {
 public:
  /// `mesh` and `weights` must outlive the gatherer. Units that a rank owns alone take no memory here: the
  /// arena holds them.
  UnitGatherer(const RankMesh& mesh, const ShardArena& weights, const StagePlan& stages);

  /// Collective over the world. Begins to gather the dense units of the stage that gather() will be called
  /// for next, a neighbour of the stage in use. Experts are not prefetched: a second layer of them takes too
  /// much memory. The weights and `stage` must not change until then.
  void begin(const Stage& stage);

  /// Collective over the world. Gathers this rank's parts of the units of a stage
  /// (ShardPlan::gathered_range), or what begin() has left over; returns the first byte of each unit, in the
  /// stage's order; for a stored unit the first byte of its codes and scales.
  [[nodiscard]] std::vector<std::byte*> gather(const Stage& stage);

  /// Collective over the world. gather() for the embedding's stage, without a begin() before: only the given
  /// rows of its table are filled in.
  [[nodiscard]] std::vector<std::byte*> gather_rows(const Stage& stage, const RowExchange& rows);

  /// Collective over the world. Completes what begin() began and drops the result: nothing is in flight
  /// afterwards.
  void drop_next();

  /// Releases what gather() or gather_rows() returned.
  void release();

 private:
  UnitGatherer(const RankMesh& mesh, const ShardArena& weights, const GatherBytes& bytes);
  struct Gathering {
    const Stage* stage = nullptr;
    std::span<std::byte> dense, experts;
    std::vector<Work> works;
  };

  [[nodiscard]] bool is_gathered(int unit) const { return weights_.plan().is_gathered(unit); }
  [[nodiscard]] bool is_kept(int unit) const { return weights_.plan().is_kept(unit); }
  /// Memory of a unit that is kept.
  [[nodiscard]] std::byte* kept_place(int unit) const {
    return kept_.data() + kept_offsets_[static_cast<std::size_t>(unit)];
  }
  void begin_kept(int unit);
  [[nodiscard]] std::int64_t held_bytes(int unit) const;
  /// Bytes of the dense units of a stage, or of its experts.
  [[nodiscard]] std::int64_t gathered_bytes(const Stage& stage, bool experts) const;
  /// First byte of this rank's own shard of a unit.
  [[nodiscard]] std::byte* own(int unit) const;
  /// Memory for the dense units of a stage.
  [[nodiscard]] std::span<std::byte> take_dense(const Stage& stage);
  [[nodiscard]] Work start(int unit, std::byte* out);

  const RankMesh& mesh_;
  const ShardArena& weights_;
  DoubleEndedBuffer dense_, experts_;
  MemoryBlock kept_;
  std::vector<std::int64_t> kept_offsets_;  ///< first byte of each unit among the kept ones, by unit
  std::vector<bool> has_begun_;  ///< whether a kept unit was gathered or is being gathered, by unit
  SideStream stream_;
  Gathering current_, next_;
};

}  // namespace sluice
