// What a load cost each rank, and how its memory was watched.
#pragma once

#include "base/clock.hpp"
#include "base/memory.hpp"
#include "comm/communicator.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>
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

/// Collective over `comm`. Every rank's row, in rank order, on every rank.
template <class Row>
[[nodiscard]] std::vector<Row> gather_rows(Communicator& comm, const Row& mine) {
  static_assert(std::is_trivially_copyable_v<Row>);
  std::vector<Row> rows(static_cast<std::size_t>(comm.size()));
  const std::vector<std::int64_t> bytes(rows.size(), sizeof(Row));
  comm.all_gather(&mine, rows.data(), bytes).wait();
  return rows;
}

/// Collective over `comm`. Every rank's row, on every rank.
[[nodiscard]] LoadReport gather_report(Communicator& comm, const RankLoad& mine);

/// Looks at this process's memory now and then and keeps the highest growth over a baseline.
class GrowthSampler {
 public:
  explicit GrowthSampler(const MemorySample& baseline) : baseline_(baseline) { sample(); }
  /// Cheap: looks every 20 ms, and takes shared memory to be what it was at the last sample().
  void tick();
  void sample();
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }
  [[nodiscard]] std::int64_t peak_pool_bytes() const { return peak_pool_; }

 private:
  void take_latest();
  MemorySample baseline_;
  MemorySample latest_;
  Stopwatch since_last_;
  std::int64_t peak_ = 0;
  std::int64_t peak_pool_ = 0;
};

}  // namespace sluice
