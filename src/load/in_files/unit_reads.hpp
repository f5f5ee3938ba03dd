// Reads for a stored unit that stays in files: which bytes of a checkpoint's files are the codes of a rank's
// shard. Pure.
#pragma once

#include "base/digest.hpp"
#include "shard/offload_plan.hpp"
#include "shard/stored/stored_layout.hpp"
#include "weights/checkpoint_index.hpp"
#include "weights/checkpoint_match.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// Bytes to be copied from a read to the shard.
struct ReadCopy {
  std::int64_t from = 0;  ///< first byte to copy, counted in the read
  std::int64_t to = 0;    ///< byte of the shard to which it goes
  std::int64_t bytes = 0;
  int run = 0;  ///< index of the run in UnitReads::runs
};

/// One direct read: whole blocks of a file, of which the last may reach beyond the file's end.
struct DirectRead {
  int file = 0;  ///< index of the file in the checkpoint's index
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::vector<ReadCopy> copies;
};

/// The reads that bring one unit.
struct UnitReads {
  std::vector<StoredLayout::OwnRun> runs;
  std::vector<DirectRead> reads;               ///< reads, ordered by file and offset
  std::vector<std::optional<Digest>> digests;  ///< digest of each run's codes, known once they were read
  std::size_t examined = 0;                    ///< number of times that the unit was examined
  std::int64_t scale_bytes = 0;
  std::int64_t scales_begin = 0;  ///< byte at which the unit's scales begin among the scales of all units
  /// Bytes that a pass over the unit reads.
  [[nodiscard]] std::int64_t read_bytes() const;
};

/// Plans the reads of this rank's shards of `units`, by unit. Reads are rounded out to blocks of a file;
/// those less than 64 KiB apart are joined, up to kSourceReadBytes bytes. Error(kInternal) if a run of a unit
/// is not one range of a file.
[[nodiscard]] std::map<int, UnitReads> plan_unit_reads(const StoredLayout& layout, std::span<const int> units,
                                                       const CheckpointIndex& index,
                                                       const CheckpointMatch& match);

}  // namespace sluice
