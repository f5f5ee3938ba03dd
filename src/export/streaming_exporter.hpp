// Runs an export plan: all ranks that see the files write their own shards at the same time; others send
// theirs to rank 0.
#pragma once

#include "base/bytes.hpp"
#include "comm/communicator.hpp"
#include "export/export_plan.hpp"
#include "shard/shard_values.hpp"
#include "weights/companion_files.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

namespace sluice {

struct ExportOptions {
  std::filesystem::path source{};           ///< directory that has plan.source().files
  std::vector<CompanionFile> companions{};  ///< files copied beside the weights; used on rank 0
  std::int64_t staging_bytes = 8 * kMiB;    ///< staging bytes of each rank
  bool keep_cached = false;                 ///< whether written files stay in the page cache
  std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)>
      progress{};  ///< function called on rank 0 after its writes; may be empty
};

/// One rank's share of an export, in bytes unless a member's name says otherwise.
struct RankExport {
  std::int64_t written_bytes = 0;
  std::int64_t copied_bytes = 0;  ///< bytes read from the source, part of written_bytes
  std::int64_t staging_bytes = 0;
  /// Highest growth of RssAnon + Pss_Shmem over the export's begin, bytes.
  std::int64_t peak_growth_bytes = 0;
};

struct ExportReport {
  std::filesystem::path directory;  ///< directory of the files, set on rank 0 alone
  std::vector<RankExport> ranks;    ///< shares of all ranks, the same on every rank
  std::int64_t file_bytes = 0;
  double seconds = 0;  ///< seconds until the directory is on disk under its final name
};

/// Collective over `comm`. Writes `target`, which appears complete or not at all: rank 0 creates the files
/// under a temporary name beside it, every rank writes and fsyncs its pieces, one that does not see the
/// directory through rank 0, which holds another staging buffer for that, and rank 0 adds index and
/// companions and renames. `values` are this rank's shards, in any training type. Holds a staging buffer of
/// the given size and, where a file has FP8 weights, 1 MiB and 8 bytes for each of its scales. If one rank
/// fails, every rank throws its error and nothing is left behind. If `target` is there and is not an empty
/// directory the files get another name (IfTaken::kNextName).
[[nodiscard]] ExportReport export_checkpoint(Communicator& comm, const ExportPlan& plan,
                                             const ShardValues& values, const std::filesystem::path& target,
                                             const ExportOptions& options);

}  // namespace sluice
