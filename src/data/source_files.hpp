// The token files of a job, on the rank that reads them.
#pragma once

#include "data/batch.hpp"
#include "data/batch_options.hpp"
#include "data/mixture.hpp"
#include "data/packer.hpp"
#include "data/token_check.hpp"
#include "data/token_file.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace sluice {

class SourceFiles {
 public:
  /// Errors of TokenFile::open(), and of Packer.
  explicit SourceFiles(const BatchOptions& options);

  /// What of each file all ranks know.
  [[nodiscard]] const std::vector<SourceFacts>& facts() const { return facts_; }

  /// A look at all ids and masks that the steps will read, in pieces, as TokenCheck has them: each once, in ascending order. With the
  /// last one Error(kBadData) if the steps read no target at all, and a warning for a file that gives them none.
  [[nodiscard]] std::int64_t check_pieces() const;
  void check(std::int64_t piece);

  /// The order in which the steps take sequences.
  [[nodiscard]] const Mixture& mixture() const { return *mixture_; }
  /// Whether batches have marks: of documents, or of a mask.
  [[nodiscard]] bool has_marks() const;
  /// These sequences as one batch, of which nothing is counted yet.
  [[nodiscard]] Batch read(std::span<const Mixture::Place> places);
  /// To know the files by: the digest of up to 16 sequences that the first batch would have of a file alone; of several files one
  /// digest of theirs and their sizes.
  [[nodiscard]] std::string sample_digest();

  /// As TokenFile::read_sequence(); of packed documents the sequence of that number, filled up with padding.
  void read_sequence(const Mixture::Place& place, std::span<std::int64_t> ids, std::span<TokenMark> marks);

  /// Of a source: the file's packer, if its documents are packed.
  [[nodiscard]] Packer* packer(std::size_t source) {
    return sources_[source].packer ? &*sources_[source].packer : nullptr;
  }

 private:
  struct Source {
    TokenFile file;
    std::optional<Packer> packer{};
    std::int64_t read = 0;  ///< sequences that the steps read of it
    std::variant<std::monostate, TokenCheck, PackedTokenCheck> check{};
  };
  [[nodiscard]] static std::int64_t pieces_of(const Source& source);
  [[nodiscard]] static bool has_target(const Source& source);
  void require_targets() const;
  [[nodiscard]] std::string sample_of(std::size_t source);

  BatchOptions options_;
  std::deque<Source> sources_;  ///< which stay where they are
  std::vector<SourceFacts> facts_;
  std::optional<Mixture> mixture_;  ///< as soon as there are facts
};

}  // namespace sluice
