// Packs the documents of a token file, one sequence after the other without end.
#pragma once

#include "data/pack_position.hpp"
#include "data/packed_window.hpp"
#include "data/token_file.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// Options of packing.
struct PackOptions {
  std::int64_t window = 0;  ///< most documents that are packed together
  LongDocuments long_documents = LongDocuments::kSplit;
};

/// Packer of a file. An epoch uses every document once. Its windows are equal parts of the documents, in a
/// seeded order or in that of the file, and so are the sequences of each. The n-th sequence is known only
/// after all windows before its own are packed, so one window is kept, and the following ones cost no more.
class Packer {
 public:
  /// Reads the length of every document. `file` must outlive this object. Error(kBadData) as
  /// TokenFile::packable_documents(), or if all documents would be left out.
  Packer(const TokenFile& file, const PackOptions& options, std::int64_t sequence_length, DataOrder order,
         std::uint64_t seed);

  /// Counts of one epoch.
  [[nodiscard]] const PackCounts& counts() const { return counts_; }
  [[nodiscard]] std::int64_t windows() const { return windows_; }
  /// Least number of sequences in an epoch, which first-fit decreasing nearly reaches.
  [[nodiscard]] std::int64_t least_sequences() const;

  /// Window number `window`, from 0, of the endless row of windows.
  [[nodiscard]] PackedWindow window(std::int64_t window) const;

  /// Sequence `number`, from 0, of the endless row. Searches from the last window used, or from the first one
  /// if that is past it.
  [[nodiscard]] std::vector<TokenRange> sequence(std::int64_t number);

  /// Position after `given` sequences, found from the last window used, or from the first one if that is past
  /// it.
  [[nodiscard]] PackPosition position(std::int64_t given) const;
  /// Goes on from a position without packing the windows before it. Only a position of this very row gives
  /// the same sequences.
  void go_on(const PackPosition& position, std::int64_t given);
  /// Number of epochs completed after `given` sequences, as documents over documents of an epoch, exact to
  /// those of one sequence.
  [[nodiscard]] double epochs(std::int64_t given);

 private:
  void enter(std::int64_t window, std::int64_t before);
  void step_to(std::int64_t number);

  const DocumentStarts* starts_;
  PackRules rules_;
  DataOrder order_;
  std::uint64_t seed_;
  PackCounts counts_;
  std::int64_t windows_;
  PackedWindow window_;       ///< the last window used
  std::int64_t number_ = -1;  ///< number of the window in window_; -1: none yet
  std::int64_t before_ = 0;   ///< number of sequences before the window
};

}  // namespace sluice
