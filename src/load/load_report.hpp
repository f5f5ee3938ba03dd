// What a load cost each rank, and how its memory was watched.
#pragma once

#include "base/clock.hpp"
#include "base/memory.hpp"
#include "comm/communicator.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// One rank's share of a load. Bytes, except where named otherwise.
struct RankLoad {
  std::int64_t received_bytes = 0;      ///< from other ranks
  std::int64_t sent_bytes = 0;          ///< to other ranks
  std::int64_t read_bytes = 0;          ///< from files
  std::int64_t shard_bytes = 0;         ///< the arena
  std::int64_t peak_staging_bytes = 0;  ///< ring buffers
  std::int64_t peak_growth_bytes = 0;   ///< RssAnon + Pss_Shmem above the baseline, at its highest
  double seconds = 0;
};

struct LoadReport {
  std::vector<RankLoad> ranks;  ///< the same on every rank
};

/// Collective over `comm`. Every rank's row, on every rank.
[[nodiscard]] LoadReport gather_report(Communicator& comm, const RankLoad& mine);

/// Looks at this process's memory now and then and keeps the highest growth over a baseline.
class GrowthSampler {
 public:
  explicit GrowthSampler(const MemorySample& baseline) : baseline_(baseline) { sample(); }
  /// Cheap: samples only when 100 ms have passed since the last sample.
  void tick();
  void sample();
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }

 private:
  MemorySample baseline_;
  Stopwatch since_last_;
  std::int64_t peak_ = 0;
};

}  // namespace sluice
