// Begins of documents in a token file: dataset `document_starts`, any integer type, ascending.
#pragma once

#include "data/batch.hpp"
#include "io/hdf5.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// `count` tokens of a file, from token `first` on.
struct TokenRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const TokenRange&) const = default;
};

/// Begins of documents; keeps one number in memory per 4096 documents, the others stay in the file.
class DocumentStarts {
 public:
  [[nodiscard]] static bool are_in(const hdf5::File& file);

  /// Reads the dataset once, block by block. `tokens` is the number of tokens; rows are counted in row-major
  /// order. Error(kBadData) if the begins are not integers, not one dimension, not ascending, or beyond the
  /// last token.
  DocumentStarts(const hdf5::File& file, std::int64_t tokens);

  /// Sets marks[i] to kBegins if token `first` + i begins a document; other marks are unchanged.
  void mark(std::int64_t first, std::span<TokenMark> marks) const;

  /// Number of documents in the file; tokens before the first begin are a document too.
  [[nodiscard]] std::int64_t documents() const { return count_ + (begins_unmarked_ ? 1 : 0); }
  /// Number of the document in which a token lies. Reads a block.
  [[nodiscard]] std::int64_t document_at(std::int64_t token) const;
  /// Tokens of each of the given documents, whose numbers must ascend. Reads the blocks in which they lie.
  [[nodiscard]] std::vector<TokenRange> runs(std::span<const std::int64_t> documents) const;

 private:
  [[nodiscard]] std::span<const std::int64_t> read_block(std::int64_t block,
                                                         std::vector<std::int64_t>& room) const;

  hdf5::Dataset starts_;
  std::int64_t count_ = 0;
  std::int64_t tokens_ = 0;
  /// Whether the first token begins a document that the dataset does not list.
  bool begins_unmarked_ = false;
  std::vector<std::int64_t> first_of_block_;
};

}  // namespace sluice
