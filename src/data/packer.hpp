// Packs the documents of a token file, or its pairs of them, one sequence after the other without end.
#pragma once

#include "data/pack_position.hpp"
#include "data/packed_window.hpp"
#include "data/token_file.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// What lies whole in a sequence.
enum class PackUnit : std::uint8_t {
  kPart,      ///< a document, or as much of a longer one as LongDocuments says
  kDocument,  ///< a document: a longer one is refused where kPart would split it
  kPair,      ///< both documents of a pair: a longer one is refused, unless ends of its answers are cut
};

/// Options of packing.
struct PackOptions {
  std::int64_t window = 0;  ///< most documents that are packed together
  LongDocuments long_documents = LongDocuments::kSplit;
  PackUnit unit = PackUnit::kPart;
  bool is_alone = false;  ///< whether each pair has a sequence of its own
};

/// Packer of a file. An epoch uses every document, or pair, once. Its windows are equal parts of them, in a
/// seeded order or in that of the file, and so are the sequences of each. The n-th sequence is known only
/// after all windows before its own are packed, so one window is kept, and the following ones cost no more.
class Packer {
 public:
  /// Reads the length of every document. `file` must outlive this object. Error(kBadData) as
  /// TokenFile::packable_documents() and TokenFile::pairs(), if all documents would be left out, for a
  /// document or pair that options.unit refuses, with its number and length, or for a pair with an answer
  /// without targets.
  Packer(const TokenFile& file, const PackOptions& options, std::int64_t sequence_length, DataOrder order,
         std::uint64_t seed);

  /// Counts of one epoch.
  [[nodiscard]] const PackCounts& counts() const { return counts_; }
  [[nodiscard]] std::int64_t windows() const { return windows_; }
  /// Least number of sequences in an epoch, which first-fit decreasing nearly reaches; the number itself where
  /// each pair has one.
  [[nodiscard]] std::int64_t least_sequences() const;
  /// Number of sequences in the first epoch, all of which is packed for it.
  [[nodiscard]] std::int64_t count_sequences() const;

  /// Window number `window`, from 0, of the endless row of windows.
  [[nodiscard]] PackedWindow window(std::int64_t window) const;

  /// Sequence `number`, from 0, of the endless row. Searches from the last window used, or from the first one
  /// if that is past it.
  [[nodiscard]] std::vector<TokenRange> sequence(std::int64_t number);
  /// Pairs of sequence `number`, whose runs sequence() has in this order; none if documents are packed.
  [[nodiscard]] std::vector<PackedPair> pairs(std::int64_t number);

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
  void count_pairs();
  void require_targets(const PackedPair& pair) const;
  [[nodiscard]] std::vector<PackedPair> lengths_of(std::span<const std::int64_t> pairs) const;
  [[nodiscard]] bool fit(PackedPair& pair) const;
  [[nodiscard]] bool cut(PackedPair& pair) const;
  [[nodiscard]] PackedWindow pack(std::span<const std::int64_t> items, const RandomStream* shuffle) const;
  void enter(std::int64_t window, std::int64_t before);
  void step_to(std::int64_t number);

  const TokenFile* file_;
  const DocumentStarts* starts_;
  PackUnit unit_;
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
