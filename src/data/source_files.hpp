// The token files of a job, on the rank that reads them.
#pragma once

#include "data/batch.hpp"
#include "data/batch_options.hpp"
#include "data/mixture.hpp"
#include "data/packer.hpp"
#include "data/reference_scores.hpp"
#include "data/score_file.hpp"
#include "data/token_check.hpp"
#include "data/token_file.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace sluice {

/// Opens a token file. Errors of TokenFile::open(), with the source's key.
[[nodiscard]] TokenFile open_source(const TokenSource& source, const TokenFileOptions& options);

/// Token files of a mixture, on rank 0.
class SourceFiles {
 public:
  /// Opens the files. Errors of TokenFile::open(), and of Packer.
  explicit SourceFiles(const BatchOptions& options);

  /// Facts about each file, known to all ranks.
  [[nodiscard]] const std::vector<SourceFacts>& facts() const { return facts_; }

  /// Checks all ids, masks and teachers' distributions that the steps will read, in pieces as of TokenCheck: pieces
  /// must be run once each, in ascending order. The last one throws Error(kBadData) if the steps read no target at
  /// all, and warns of a file that gives them none, and of one with answers that teach no end.
  [[nodiscard]] std::int64_t check_pieces() const;
  void check(std::int64_t piece);

  /// Finds the scores of each file's pairs under the reference, and looks for those of every pair that the steps read;
  /// calls `tell` now and then. Pairs have the reference's log-probabilities from then on. Errors of ReferenceScores.
  void take_reference(const ReferenceOptions& options, const std::function<void()>& tell);
  /// Calls `visit` with each pair of a file that the steps read, and `tell` now and then.
  void visit_pairs(std::size_t source, const std::function<void(const PackedPair&)>& visit,
                   const std::function<void()>& tell) const;

  /// Mixture: the order in which the steps use sequences.
  [[nodiscard]] const Mixture& mixture() const { return *mixture_; }
  /// Whether batches have marks, of documents or of a mask.
  [[nodiscard]] bool has_marks() const;
  /// Reads the given sequences as one batch, without counts.
  [[nodiscard]] Batch read(std::span<const Mixture::Place> places);
  /// Digest that identifies the files: of up to 16 sequences that the first batch would have for a single
  /// file; for several files of their digests and sizes.
  [[nodiscard]] std::string sample_digest();
  /// Digest of all tokens of the files, which it reads whole; "" if one has more than 4 Mi tokens.
  [[nodiscard]] std::string whole_digest() const;

  /// Reads a sequence as TokenFile::read_sequence() does; for packed documents the packed sequence of that
  /// number, with padding.
  void read_sequence(const Mixture::Place& place, std::span<std::int64_t> ids, std::span<TokenMark> marks);

  /// What the distributions of the teachers have in common.
  [[nodiscard]] const TeacherFacts& teacher() const { return teacher_; }

  [[nodiscard]] const TokenFile& file(std::size_t source) const { return sources_[source].file; }
  /// Packer of a source, if its documents are packed; else null.
  [[nodiscard]] Packer* packer(std::size_t source) {
    return sources_[source].packer ? &*sources_[source].packer : nullptr;
  }

 private:
  struct OpenSource {
    TokenFile file;
    std::optional<Packer> packer{};
    std::optional<ScoreFile> teacher{};
    std::int64_t read = 0;  ///< number of sequences that the steps read from it
    std::optional<ReferenceScores> reference{};
    std::variant<std::monostate, TokenCheck, PackedTokenCheck> check{};
  };
  [[nodiscard]] static std::int64_t pieces_of(const OpenSource& source);
  [[nodiscard]] static bool has_target(const OpenSource& source);
  void open_teachers();
  void open_teacher(const std::filesystem::path& path, const std::vector<std::string>& digests);
  [[noreturn]] void refuse_other_tokens(const ScoreFile& teacher,
                                        const std::vector<std::string>& digests) const;
  void compare_vocabulary(const ScoreFile& teacher, const TokenFile& tokens) const;
  void check_teacher(const ScoreFile& teacher, const TokenRange& run) const;
  void add_teacher(const Mixture::Place& place, std::span<const TokenMark> marks, TeacherRows& rows);
  void require_targets() const;
  void warn_of_endless_answers() const;
  [[nodiscard]] std::vector<TokenRange> runs(const Mixture::Place& place);
  void add_places(const Mixture::Place& place, std::vector<std::int64_t>& places);
  void add_pairs(const Mixture::Place& place, std::int64_t sequence, std::vector<PreferencePair>& pairs);
  [[nodiscard]] std::string sample_of(std::size_t source);

  BatchOptions options_;
  std::deque<OpenSource> sources_;  ///< sources; a deque, so that references to them stay valid
  std::vector<SourceFacts> facts_;
  TeacherFacts teacher_;
  std::optional<Mixture> mixture_;  ///< the mixture, once the sources' facts are known
};

}  // namespace sluice
