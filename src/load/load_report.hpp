// Memory and traffic of a load on each rank.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

/// One rank's share of a load, in bytes unless a member's name says otherwise.
struct RankLoad {
  std::int64_t received_bytes = 0;      ///< bytes received from other ranks
  std::int64_t sent_bytes = 0;          ///< bytes sent to other ranks
  std::int64_t read_bytes = 0;          ///< payload bytes read from files
  std::int64_t overhead_bytes = 0;      ///< bytes read around the payload, where reads fetch whole blocks
  std::int64_t shard_bytes = 0;         ///< bytes of the arena
  std::int64_t peak_staging_bytes = 0;  ///< most bytes of staging memory at any time
  /// highest growth of RssAnon + Pss_Shmem above the baseline, in bytes
  std::int64_t peak_growth_bytes = 0;
  /// Most bytes of the machine's free memory taken during the load, by all processes.
  std::int64_t peak_pool_bytes = 0;
  /// Bytes of the files in this machine's page cache after the load; -1: the rank is no reader, or the kernel
  /// does not tell.
  std::int64_t page_cache_bytes = -1;
  std::int64_t available_bytes = 0;  ///< bytes available on the machine after the load (MemAvailable)
  double seconds = 0;
};

struct LoadReport {
  std::vector<RankLoad> ranks;  ///< shares of all ranks, the same on every rank
};

}  // namespace sluice
