// Which bytes of a checkpoint's files are the codes of a rank's shard of a stored unit, and by which reads they
// come. Pure.
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

/// Bytes that go from a read to the shard.
struct ReadCopy {
  std::int64_t from = 0;  ///< byte of the read
  std::int64_t to = 0;    ///< byte of the shard
  std::int64_t bytes = 0;
  int run = 0;  ///< number of the run among UnitReads::runs
};

/// One direct read: whole blocks of a file, the last of which may lie across its end.
struct DirectRead {
  int file = 0;  ///< index of the file in the checkpoint's index
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::vector<ReadCopy> copies;
};

/// The reads of one unit.
struct UnitReads {
  std::vector<StoredLayout::OwnRun> runs;
  std::vector<DirectRead> reads;               ///< reads, ordered by file and offset
  std::vector<std::optional<Digest>> digests;  ///< digest of each run's codes, once they were read
  std::size_t examined = 0;                    ///< number of examinations that the unit has been through
  std::int64_t scale_bytes = 0;
  std::int64_t scales_begin = 0;  ///< byte at which the unit's scales begin among those of all units
  /// Bytes that a pass over the unit reads.
  [[nodiscard]] std::int64_t read_bytes() const;
};

/// The reads of this rank's shards of `units`, by unit. They are rounded out to blocks of a file; those that
/// are less than 64 KiB apart become one, up to kSourceReadBytes. Error(kInternal) if a run of a unit is not
/// one range of a file.
[[nodiscard]] std::map<int, UnitReads> plan_unit_reads(const StoredLayout& layout, std::span<const int> units,
                                                       const CheckpointIndex& index,
                                                       const CheckpointMatch& match);

}  // namespace sluice
