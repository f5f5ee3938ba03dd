// The packed sequences of a token file, one after the other for as long as they are asked for.
#pragma once

#include "data/pack_position.hpp"
#include "data/packed_window.hpp"
#include "data/token_file.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// Options of packing.
struct PackOptions {
  std::int64_t window = 0;  ///< documents that are packed together, at most
  LongDocuments long_documents = LongDocuments::kSplit;
};

/// An epoch takes every document once. Its windows are equal parts of the documents in a seeded order, or in
/// that of the file, and so are the sequences of each. Which sequence is the n-th can be known only by
/// packing all windows before its own, so one window is kept, and those that follow it cost no more.
class Packer {
 public:
  /// Looks at the length of every document. `file` must outlive this. Error(kBadData) as
  /// TokenFile::packable_documents(), or if all documents would be left out.
  Packer(const TokenFile& file, const PackOptions& options, std::int64_t sequence_length, DataOrder order,
         std::uint64_t seed);

  /// Counts of one epoch.
  [[nodiscard]] const PackCounts& counts() const { return counts_; }
  [[nodiscard]] std::int64_t windows() const { return windows_; }
  /// The least that an epoch may have, which first-fit decreasing comes near to.
  [[nodiscard]] std::int64_t least_sequences() const;

  /// The window that is number `window`, from 0, of the endless row of them.
  [[nodiscard]] PackedWindow window(std::int64_t window) const;

  /// Sequence `number`, from 0, of the endless row. Steps from the window that was used last, or from the
  /// first one if that is past it.
  [[nodiscard]] std::vector<TokenRange> sequence(std::int64_t number);

  /// Position after `given` sequences in all: told from the window that was used last, or from the first one
  /// if that window is past it.
  [[nodiscard]] PackPosition position(std::int64_t given) const;
  /// Goes on from there, without the windows before. Nothing but a position of this very row gives the same
  /// sequences.
  void go_on(const PackPosition& position, std::int64_t given);
  /// Epochs that are through after so many sequences, counted in documents to within those of a sequence.
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
  PackedWindow window_;       ///< window that was used last
  std::int64_t number_ = -1;  ///< number of the window in window_; -1: none yet
  std::int64_t before_ = 0;   ///< sequences before it
};

}  // namespace sluice
