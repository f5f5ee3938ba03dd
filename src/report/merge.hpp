// Merges the segments of a resumed run's metrics into one file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace sluice {

/// Result of merging the segments of a run.
struct MergeReport {
  std::int64_t rows = 0;
  /// Number of rows that a later segment replaced, because it trained their steps again.
  std::int64_t replaced_rows = 0;
};

/// Writes `output`, a new file, of `segments` in the order in which they were written; the last one may still
/// grow. A step that more than one holds is taken from the latest, as it is in the weights. A column that a
/// segment lacks, or numbers of ranks that it did not have, read as NaN or -1. /load and the attributes are
/// those of the last segment; the attribute `segments` names all. In pieces of a few MiB. Error(kBadData) if
/// a segment is no metrics file or none has a row, Error(kIo) as io/hdf5.hpp.
MergeReport merge_metrics(std::span<const std::filesystem::path> segments,
                          const std::filesystem::path& output);

}  // namespace sluice
