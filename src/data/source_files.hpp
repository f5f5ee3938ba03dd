// The token files of a job, on the rank that reads them.
#pragma once

#include "data/batch_options.hpp"
#include "data/id_check.hpp"
#include "data/mixture.hpp"
#include "data/token_file.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

class SourceFiles {
 public:
  /// Errors of TokenFile::open().
  explicit SourceFiles(const BatchOptions& options);

  /// What of each file all ranks know.
  [[nodiscard]] const std::vector<SourceFacts>& facts() const { return facts_; }

  /// All ids that the steps will read, in pieces, as IdCheck has them.
  [[nodiscard]] std::int64_t check_pieces() const;
  void check_ids(std::int64_t piece) const;

  /// As TokenFile::read_sequence().
  void read_sequence(const Mixture::Place& place, std::span<std::int64_t> ids,
                     std::span<TokenMark> marks) const {
    files_[place.source].read_sequence(place.sequence, ids, marks);
  }

 private:
  std::vector<TokenFile> files_;
  std::vector<SourceFacts> facts_;
  std::vector<IdCheck> checks_;
};

}  // namespace sluice
