// Where documents begin in a token file: dataset `document_starts`, any integer type, ascending.
#pragma once

#include "data/batch.hpp"
#include "io/hdf5.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

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

 private:
  [[nodiscard]] std::span<const std::int64_t> read_block(std::int64_t block,
                                                         std::vector<std::int64_t>& room) const;

  hdf5::Dataset starts_;
  std::int64_t count_ = 0;
  std::vector<std::int64_t> first_of_block_;
};

}  // namespace sluice
