// Runs a load plan: readers read chunk after chunk, and send every element straight to the rank that owns it.
#pragma once

#include "base/memory/memory.hpp"
#include "load/chunk_reader.hpp"
#include "load/load_plan.hpp"
#include "load/load_report.hpp"
#include "shard/arena.hpp"
#include "shard/rank_sets.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>

namespace sluice {

struct LoadProgress {
  std::int64_t done_bytes = 0;
  std::int64_t total_bytes = 0;
  double seconds = 0;
};

/// Default number of slots in a load's ring.
constexpr int kRingSlots = 4;

struct LoadOptions {
  int ring_slots = kRingSlots;  ///< chunks in flight at once; see LoadPlan::staging_bytes()
  int reader_threads = 2;       ///< chunks being read at once on a rank that reads
  CachePolicy page_cache = CachePolicy::kAuto;
  double limit_seconds = 900;  ///< longest wait for a chunk, seconds
  MemorySample baseline{};     ///< memory sample from which peak_growth_bytes counts
  /// called on rank 0 after each of its chunks; may be empty
  std::function<void(const LoadProgress&)> progress{};
};

/// Collective over all ranks of `sets`. Fills `weights` of every rank from the files in `directory`, which only
/// the plan's readers open, in each set or, if it passes on, in the first; `weights` is null for a plan that
/// discards. Allocates the ring of staging slots besides the arena, and nothing that grows. The plan must be the
/// same on every rank of a set, or of all if it passes on (compare LoadPlan::digest() first), and made for the
/// size of a set and this arena's plan and element type. Throws on the rank that fails; the others wait until
/// the job is ended or their deadline passes.
[[nodiscard]] LoadReport load_shards(const RankSets& sets, const LoadPlan& plan,
                                     const std::filesystem::path& directory, ShardArena* weights,
                                     const LoadOptions& options);

}  // namespace sluice
