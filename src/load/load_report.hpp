// What a load cost each rank.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

/// One rank's share of a load. Bytes, except where named otherwise.
struct RankLoad {
  std::int64_t received_bytes = 0;      ///< from other ranks
  std::int64_t sent_bytes = 0;          ///< to other ranks
  std::int64_t read_bytes = 0;          ///< from files, payload alone
  std::int64_t overhead_bytes = 0;      ///< from files, around the payload, where reads fetch whole blocks
  std::int64_t shard_bytes = 0;         ///< the arena
  std::int64_t peak_staging_bytes = 0;  ///< ring buffers
  std::int64_t peak_growth_bytes = 0;   ///< RssAnon + Pss_Shmem above the baseline, at its highest
  std::int64_t peak_pool_bytes = 0;     ///< taken from the machine's free memory by everything on it, at most
  std::int64_t page_cache_bytes =
      -1;  ///< of the files, in this machine's page cache afterwards; -1: not a reader, or not told
  std::int64_t available_bytes = 0;  ///< MemAvailable afterwards
  double seconds = 0;
};

struct LoadReport {
  std::vector<RankLoad> ranks;  ///< the same on every rank
};

}  // namespace sluice
