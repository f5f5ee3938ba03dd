// Cost of a load on each rank.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

/// One rank's share of a load. Bytes, except where named otherwise.
struct RankLoad {
  std::int64_t received_bytes = 0;      ///< bytes received from other ranks
  std::int64_t sent_bytes = 0;          ///< bytes sent to other ranks
  std::int64_t read_bytes = 0;          ///< payload bytes read from files
  std::int64_t overhead_bytes = 0;      ///< bytes read around the payload, where reads fetch whole blocks
  std::int64_t shard_bytes = 0;         ///< bytes of the arena
  std::int64_t peak_staging_bytes = 0;  ///< bytes of ring buffers, at most
  std::int64_t peak_growth_bytes = 0;   ///< RssAnon + Pss_Shmem above the baseline, at its highest
  std::int64_t peak_pool_bytes = 0;     ///< taken from the machine's free memory by everything on it, at most
  /// Bytes of the files in this machine's page cache afterwards; -1: not a reader, or not known.
  std::int64_t page_cache_bytes = -1;
  std::int64_t available_bytes = 0;  ///< bytes that the machine has available afterwards (MemAvailable)
  double seconds = 0;
};

struct LoadReport {
  std::vector<RankLoad> ranks;  ///< load of each rank, the same on every rank
};

}  // namespace sluice
