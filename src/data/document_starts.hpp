// Begins of documents in a token file: dataset `document_starts`, any integer type, ascending.
#pragma once

#include "data/batch.hpp"
#include "io/hdf5.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// `count` tokens of a file from `first` on.
struct TokenRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const TokenRange&) const = default;
};

/// Keeps one number in memory for each 4096 documents; the others stay in the file.
class DocumentStarts {
 public:
  [[nodiscard]] static bool are_in(const hdf5::File& file);

  /// Reads the dataset once, block by block. `tokens` is the number of tokens, of rows all in row-major
  /// order. Error(kBadData) if they are not integers, not one dimension, not ascending, or beyond the last
  /// token.
  DocumentStarts(const hdf5::File& file, std::int64_t tokens);

  /// Sets marks[i] to kBegins where token `first` + i begins a document, and leaves the others.
  void mark(std::int64_t first, std::span<TokenMark> marks) const;

  /// Documents in the file: tokens before the first start are one, too.
  [[nodiscard]] std::int64_t documents() const { return count_ + (begins_unmarked_ ? 1 : 0); }
  /// The tokens of each of these documents, whose numbers ascend. Reads the blocks that they lie in.
  [[nodiscard]] std::vector<TokenRange> runs(std::span<const std::int64_t> documents) const;

 private:
  [[nodiscard]] std::span<const std::int64_t> read_block(std::int64_t block,
                                                         std::vector<std::int64_t>& room) const;

  hdf5::Dataset starts_;
  std::int64_t count_ = 0;
  std::int64_t tokens_ = 0;
  bool begins_unmarked_ = false;  ///< the first token begins a document that the dataset does not name
  std::vector<std::int64_t> first_of_block_;
};

}  // namespace sluice
