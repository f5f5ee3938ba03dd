// Documents packed into sequences, a bounded number of them at a time. Pure.
#pragma once

#include "base/random.hpp"
#include "config/choices.hpp"
#include "data/document_starts.hpp"
#include "data/permutation.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// Rules of packing.
struct PackRules {
  std::int64_t sequence_length = 0;  ///< inputs of a sequence, which is one token more
  LongDocuments long_documents = LongDocuments::kSplit;
};

/// Counts of the documents of some windows.
struct PackCounts {
  std::int64_t documents = 0;
  std::int64_t long_documents = 0;  ///< documents with more tokens than a sequence has inputs
  std::int64_t inputs = 0;          ///< tokens that sequences have as inputs
  PackCounts& operator+=(const PackCounts& other);
};
/// Adds one document to `counts`.
void count_document(std::int64_t tokens, const PackRules& rules, PackCounts& counts);

/// A document of at most sequence_length tokens lies whole within the inputs of one sequence, beside others
/// as first-fit decreasing puts them. A longer one begins sequences of its own, which end in the token after
/// their last input as target; what splitting leaves at its end is packed like a document.
class PackedWindow {
 public:
  /// Bytes for each document that a window holds, while it is made.
  static constexpr std::int64_t kDocumentBytes = 128;

  PackedWindow() = default;
  /// `documents` in the order of the file. `shuffle`: the order of the sequences, if they are to have another
  /// than that of the documents that they begin with.
  PackedWindow(std::span<const TokenRange> documents, const PackRules& rules, const RandomStream* shuffle);

  [[nodiscard]] std::int64_t sequences() const { return packed_ + full_; }
  [[nodiscard]] const PackCounts& counts() const { return counts_; }
  /// Runs of tokens, one after the other in the sequence, in the order of the file; each is the beginning of
  /// a document, or of what takes its place.
  [[nodiscard]] std::vector<TokenRange> sequence(std::int64_t index) const;
  /// Every run of every sequence, in the order of the file but for long documents, which come last.
  [[nodiscard]] std::vector<TokenRange> runs() const;

 private:
  /// Sequences that a long document fills alone.
  struct FullRange {
    TokenRange tokens;
    std::int64_t before;  ///< such sequences of documents before it
  };
  void add(const TokenRange& document, const PackRules& rules);
  [[nodiscard]] TokenRange full_sequence(std::int64_t index) const;

  std::int64_t length_ = 0;
  PackCounts counts_;
  std::int64_t packed_ = 0;           ///< sequences of what was packed
  std::int64_t full_ = 0;             ///< sequences that hold a part of one long document alone
  std::vector<TokenRange> items_;     ///< runs of tokens that were packed, in the file's order
  std::vector<std::int32_t> by_bin_;  ///< items, those of each sequence together
  /// Begin of each sequence's documents in by_bin_, and the last one's end.
  std::vector<std::int32_t> bin_begin_;
  std::vector<FullRange> full_runs_;
  std::optional<Permutation> shuffle_;  ///< order in which the sequences are taken
};

}  // namespace sluice
