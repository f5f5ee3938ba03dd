// Load request of a job's settings: the same for `run`, `check` and `plan`.
#pragma once

#include "job/blueprint.hpp"
#include "load/checkpoint_load.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// How `model.path` is read into `shards`, which belong to `blueprint`. `nodes`: the node of each rank, for
/// load.readers = "node". `left_in_files`: units that are not read into the shards.
[[nodiscard]] LoadRequest load_request(const Blueprint& blueprint, const ShardPlan& shards,
                                       std::span<const int> nodes, std::span<const int> left_in_files = {});

/// The plan of that load, of a Hugging Face directory or of a saved step. Errors as plan_load(), and
/// Error(kBadData) for a step that is not whole.
[[nodiscard]] PlannedLoad plan_weights(const Blueprint& blueprint, const ShardPlan& shards,
                                       std::span<const int> nodes);
/// Collective over `comm`. The same, from what rank 0 reads.
[[nodiscard]] PlannedLoad plan_weights(Communicator& comm, const Blueprint& blueprint,
                                       const ShardPlan& shards, std::span<const int> nodes,
                                       std::span<const int> left_in_files = {});

/// How such a load runs: page cache and deadline.
[[nodiscard]] LoadOptions load_options(const JobConfig& config);

/// The nodes of `world` ranks that each have a machine of their own: what a command takes them to have that
/// cannot ask.
[[nodiscard]] std::vector<int> separate_nodes(int world);

/// Staging of each rank: what the plan of the load states; or, without a plan, what it may be at most. 0
/// where the job draws its weights.
[[nodiscard]] std::vector<std::int64_t> planned_staging(const LoadPlan& plan);
[[nodiscard]] std::vector<std::int64_t> largest_staging(const Blueprint& blueprint, const ShardPlan& shards,
                                                        std::span<const int> nodes);

/// Memory of each rank on a machine of its own, with as much staging as it may take at most. `growth_limit`
/// as workload_of() takes it.
[[nodiscard]] std::vector<RankMemory> memory_on_separate_nodes(
    const Blueprint& blueprint, const ShardPlan& shards,
    std::optional<std::int64_t> growth_limit = std::nullopt);

}  // namespace sluice
