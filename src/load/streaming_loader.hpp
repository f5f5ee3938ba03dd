// Runs a load plan: readers read chunk after chunk, and every piece goes straight to the rank that owns it.
#pragma once

#include "base/memory.hpp"
#include "load/chunk_reader.hpp"
#include "load/load_plan.hpp"
#include "load/load_report.hpp"
#include "shard/arena.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>

namespace sluice {

struct LoadProgress {
  std::int64_t done_bytes = 0;
  std::int64_t total_bytes = 0;
  double seconds = 0;
};

/// Slots of a load's ring unless it is told otherwise.
constexpr int kRingSlots = 4;

struct LoadOptions {
  int ring_slots = kRingSlots;  ///< chunks under way at once; see LoadPlan::staging_bytes()
  int reader_threads = 2;       ///< reads under way at once, on a rank that reads
  CachePolicy page_cache = CachePolicy::kAuto;
  double limit_seconds = 900;                           ///< longest wait for a read
  MemorySample baseline{};                              ///< sample that peak_growth_bytes is counted from
  std::function<void(const LoadProgress&)> progress{};  ///< called on rank 0 after its chunks; may be empty
};

/// Collective over `comm`. Fills `weights` of every rank from the files in `directory`, which only the plan's
/// readers touch; null with a plan that discards. Holds the ring of staging slots besides the arena, and
/// nothing that grows. The plan must be the same on every rank (compare LoadPlan::digest() first) and made
/// for this communicator's size and this arena's plan and element type. Throws on the rank that fails; the
/// others wait until the job is ended or their deadline passes.
[[nodiscard]] LoadReport load_shards(Communicator& comm, const LoadPlan& plan,
                                     const std::filesystem::path& directory, ShardArena* weights,
                                     const LoadOptions& options);

}  // namespace sluice
