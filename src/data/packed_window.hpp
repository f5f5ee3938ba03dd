// Documents, or pairs of them, packed into sequences, a bounded number of them at a time. Pure.
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
  std::int64_t sequence_length = 0;  ///< inputs per sequence, which has one token more
  LongDocuments long_documents = LongDocuments::kSplit;
  bool is_alone = false;  ///< whether each pair has a sequence of its own
};

/// Pair of documents that lie in one sequence.
struct PackedPair {
  std::int64_t number = 0;      ///< row of the pair in the token file's `pairs`
  TokenRange chosen, rejected;  ///< tokens of both, without those that were cut off
};

/// Counts of the documents, or pairs, of some windows.
struct PackCounts {
  std::int64_t documents = 0;       ///< number of documents, or of pairs
  std::int64_t long_documents = 0;  ///< number of those with more tokens than a sequence has inputs
  std::int64_t left_out = 0;        ///< number of pairs that lie in no sequence
  std::int64_t inputs = 0;          ///< number of tokens that sequences have as inputs
  PackCounts& operator+=(const PackCounts& other);
};
/// Adds one document to `counts`.
void count_document(std::int64_t tokens, const PackRules& rules, PackCounts& counts);

/// Documents packed into sequences. A document of at most sequence_length tokens lies whole within the inputs
/// of one sequence, beside others as first-fit decreasing puts them. A longer one begins sequences of its
/// own, which end in the token after their last input as target; the rest that splitting leaves at its end is
/// packed like a document.
class PackedWindow {
 public:
  /// Bytes per document of a window while it is packed; a pair has two.
  static constexpr std::int64_t kDocumentBytes = 128;

  PackedWindow() = default;
  /// Packs `documents`, given in the order of the file. `shuffle`: order of the sequences; nothing: the order
  /// of the documents with which they begin.
  PackedWindow(std::span<const TokenRange> documents, const PackRules& rules, const RandomStream* shuffle);
  /// Packs pairs, each of which fits a sequence: as many as fit, or with rules.is_alone one in each.
  PackedWindow(std::vector<PackedPair> pairs, const PackRules& rules, const RandomStream* shuffle);

  [[nodiscard]] std::int64_t sequences() const { return packed_ + full_; }
  [[nodiscard]] const PackCounts& counts() const { return counts_; }
  /// Runs of tokens that make up a sequence, in the order of the file; each is the beginning of a document,
  /// or of the rest of one.
  [[nodiscard]] std::vector<TokenRange> sequence(std::int64_t index) const;
  /// Pairs of a sequence; their runs, chosen and rejected in turn, are those of sequence().
  [[nodiscard]] std::vector<PackedPair> pairs(std::int64_t index) const;
  /// Every run of every sequence, in the order of the file, except that long documents come last.
  [[nodiscard]] std::vector<TokenRange> runs() const;

 private:
  /// Sequences that one long document fills alone.
  struct FullRange {
    TokenRange tokens;
    std::int64_t before;  ///< number of such sequences of documents before it
  };
  void add(const TokenRange& document, const PackRules& rules);
  void pack(std::span<const std::int32_t> sizes, const PackRules& rules, const RandomStream* shuffle);
  /// Indices of the items of a packed sequence.
  [[nodiscard]] std::span<const std::int32_t> items_of(std::int64_t index) const;
  [[nodiscard]] TokenRange full_sequence(std::int64_t index) const;

  std::int64_t length_ = 0;
  PackCounts counts_;
  std::int64_t packed_ = 0;           ///< number of sequences with packed documents
  std::int64_t full_ = 0;             ///< number of sequences with a part of one long document
  std::vector<TokenRange> items_;     ///< runs of tokens that were packed, in the file's order
  std::vector<PackedPair> pairs_;     ///< pairs that were packed, in the file's order, in place of items_
  std::vector<std::int32_t> by_bin_;  ///< indices of items, or pairs, grouped by sequence
  /// Index in by_bin_ at which each sequence's items begin; the last number is their end.
  std::vector<std::int32_t> bin_begin_;
  std::vector<FullRange> full_runs_;
  std::optional<Permutation> shuffle_;  ///< order in which the sequences are given; nothing: as they are
};

}  // namespace sluice
