// Token ids in an HDF5 file: dataset `tokens`, any integer type, a stream [n] or rows [sequences, length +
// 1].
#pragma once

#include "io/hdf5.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace sluice {

class TokenFile {
 public:
  /// Error(kBadData) if the file or dataset is missing, holds no integers, is too short for one sequence, or
  /// has rows that are not sequence_length + 1 long.
  static TokenFile open(const std::filesystem::path& path, std::int64_t sequence_length,
                        std::int64_t vocab_size);

  /// Rows, or floor((n - 1) / sequence_length) of a stream.
  [[nodiscard]] std::int64_t sequence_count() const { return sequence_count_; }

  /// Sequence i as sequence_length + 1 ids: the first sequence_length are inputs, the last sequence_length
  /// targets. Of a stream t: t[i L .. i L + L]. Error(kBadData) for an id outside [0, vocab_size), naming its
  /// place.
  void read_sequence(std::int64_t index, std::span<std::int64_t> ids) const;

 private:
  TokenFile(hdf5::File file, hdf5::Dataset tokens, std::int64_t sequence_length, std::int64_t vocab_size);
  void check_ids(std::int64_t index, std::span<const std::int64_t> ids) const;

  hdf5::File file_;
  hdf5::Dataset tokens_;
  std::int64_t sequence_length_;
  std::int64_t vocab_size_;
  bool is_stream_;
  std::int64_t sequence_count_;
};

}  // namespace sluice
