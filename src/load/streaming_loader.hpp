// Runs a load plan: rank 0 reads chunk after chunk, and every piece goes straight to the rank that owns it.
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

struct LoadOptions {
  int ring_slots = 3;  ///< chunks under way at once; staging is this times LoadPlan::slot_bytes()
  CachePolicy page_cache = CachePolicy::kAuto;
  MemorySample baseline{};                              ///< what peak_growth_bytes is counted from
  std::function<void(const LoadProgress&)> progress{};  ///< called on rank 0 after every chunk; may be empty
};

/// Collective over `comm`. Fills `weights` of every rank from the files in `directory`, which only rank 0
/// reads. Holds the ring of staging slots besides the arena, and nothing that grows. The plan must be the
/// same on every rank (compare LoadPlan::digest() first) and made for this communicator's size and this
/// arena's plan and element type. Throws on the rank that fails; the others wait until the job is ended or
/// their deadline passes.
[[nodiscard]] LoadReport load_shards(Communicator& comm, const LoadPlan& plan,
                                     const std::filesystem::path& directory, ShardArena& weights,
                                     const LoadOptions& options);

}  // namespace sluice
