// A model of tests/fixtures, loaded into the shards of a communicator's ranks.
#pragma once

#include "load/checkpoint_load.hpp"
#include "model/architecture.hpp"
#include "shard/arena.hpp"
#include "support/mpi_test.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace sluice::test {

/// Groups of experts for a model's test over all ranks: gathered (1) or routed experts (all ranks), by turns. At each
/// number of ranks, tests of turn 0 and of turn 1 meet the two of them, and other models the other way round.
inline int drawn_expert_parallel(const std::string& model, int turn) {
  const int world = test_world().size();
  return (world + static_cast<int>(model.size()) + turn) % 2 == 0 ? 1 : world;
}

/// In float32. Stays where it was made.
struct LoadedModel {
  /// Collective over `comm`. `state_block` as in make_unit_layouts().
  LoadedModel(Communicator& comm, const std::filesystem::path& directory, int expert_parallel,
              std::int64_t state_block = 1)
      : description(describe_model(directory, DType::kFloat32)),
        keys(description.manifest),
        layouts(make_unit_layouts(description.manifest, state_block)),
        plan(layouts, {.world = comm.size(), .expert_parallel = expert_parallel}),
        weights(plan, comm.rank(), DType::kFloat32, MemoryKind::kPrivate, "weights") {
    const LoadRequest request{.directory = directory,
                              .keys = keys,
                              .shards = plan,
                              .options = {.arena = DType::kFloat32,
                                          .chunk_bytes = 8 << 20,
                                          .readers = ReaderAssignment::rank0(comm.size())}};
    load_checkpoint(comm, plan_load(comm, request), directory, &weights, {});
  }
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const ModelDescription description;
  const KeyMap keys;
  const UnitLayouts layouts;
  const ShardPlan plan;
  ShardArena weights;
};

}  // namespace sluice::test
