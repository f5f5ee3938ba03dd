// Token ids in an HDF5 file: dataset `tokens`, any integer type, a stream [n] or rows [sequences, length +
// 1], and perhaps `document_starts`, `loss_mask` and `pairs` (FORMAT.md).
#pragma once

#include "base/digest.hpp"
#include "data/answer_counts.hpp"
#include "data/batch.hpp"
#include "data/document_starts.hpp"
#include "data/loss_mask.hpp"
#include "io/hdf5.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Options of reading a token file.
struct TokenFileOptions {
  std::int64_t sequence_length = 0;
  std::int64_t vocab_size = 0;
  std::optional<std::int64_t> separator_token{};  ///< id of the last token of each document
  /// Whether the last tokens of a stream that do not fill a sequence are read too, with padding.
  bool keep_rest = false;
};

/// Two documents of a file, by their numbers: the one whose answer is preferred, and the other.
struct DocumentPair {
  std::int64_t chosen = 0, rejected = 0;
};

/// A token file: a stream of tokens, or rows of sequences. Reads are independent of each other.
class TokenFile {
 public:
  /// Looks at the file in a process of its own first (io/trial_process.hpp): the library may fail on it in
  /// every way. Error(kBadData) if the file or dataset is missing, not written to its end, holds no integers,
  /// is too short for one sequence, or has rows that are not sequence_length + 1 long; if the file has broken
  /// document_starts, or has any and the options name a separator too; for pairs of other documents than the
  /// file has.
  static TokenFile open(const std::filesystem::path& path, const TokenFileOptions& options);

  [[nodiscard]] const std::string& name() const { return file_.name(); }
  /// Number of sequences: rows, or floor((n - 1) / sequence_length) for a stream; with keep_rest rounded up.
  [[nodiscard]] std::int64_t sequence_count() const { return sequence_count_; }

  [[nodiscard]] std::int64_t token_count() const { return token_count_; }

  /// Whether the file or the options say where documents begin.
  [[nodiscard]] bool marks_documents() const { return starts_ || options_.separator_token; }
  /// Begins of the documents in a stream, for packing. Error(kBadData) if the file is not a stream, or has no
  /// dataset with them.
  [[nodiscard]] const DocumentStarts& packable_documents() const;
  [[nodiscard]] bool has_pairs() const { return !pairs_.empty(); }
  /// The file's pairs of documents, each with 16 bytes. Error(kBadData) if it has none.
  [[nodiscard]] const std::vector<DocumentPair>& pairs() const;
  [[nodiscard]] const DocumentPair& pair(std::int64_t number) const {
    return pairs()[static_cast<std::size_t>(number)];
  }
  /// Whether the file says which tokens are targets.
  [[nodiscard]] bool masks_targets() const { return mask_.has_value(); }

  /// Whether the file is a stream whose documents it lists.
  [[nodiscard]] bool lists_documents() const { return is_stream_ && starts_.has_value(); }
  /// Digest of the tokenizer that made the ids, as `sluice tokenize` keeps it; "": unknown.
  [[nodiscard]] std::string tokenizer_digest() const;
  /// Numbers of answers in the file's conversations, as TokenWriter keeps them; 0 in files of other programs.
  [[nodiscard]] const AnswerCounts& answers() const { return answers_; }

  /// Number of documents, for which the whole file is read: as many as read_sequence() marks. A stream
  /// without marks is one document, and so is a row.
  [[nodiscard]] std::int64_t count_documents() const;

  /// Checks ids and mask of sequences [first, first + count), in large pieces. Error(kBadData) as
  /// read_sequence(). Sets `has_target` if one of their tokens is a target; does not look for one if it is
  /// set.
  void check_sequences(std::int64_t first, std::int64_t count, bool& has_target) const;

  /// Tokens of sequence i; the last sequence may be shorter than the others.
  [[nodiscard]] TokenRange tokens_of(std::int64_t index) const;

  /// Reads tokens [run.first, run.first + run.count) of a stream, of which only the first begins a document;
  /// `ids` has room for them, and so has `marks`, if not empty. Error(kBadData) as read_sequence().
  void read_run(const TokenRange& run, std::span<std::int64_t> ids, std::span<TokenMark> marks) const;
  /// Checks ids and mask of a run of tokens, in pieces. Error(kBadData) as read_sequence().
  void check_run(const TokenRange& run) const;
  /// Whether a run of tokens has a target.
  [[nodiscard]] bool has_target(const TokenRange& run) const { return tokens_before_target(run) < run.count; }
  /// Number of targets in a run of tokens.
  [[nodiscard]] std::int64_t count_targets(const TokenRange& run) const;
  /// Number of tokens of a run before its first target; run.count if it has none.
  [[nodiscard]] std::int64_t tokens_before_target(const TokenRange& run) const;

  /// Digest of all ids, and of the places of documents, the mask and the pairs, for which the whole file is read.
  [[nodiscard]] Digest digest() const;

  /// Sequence i as sequence_length + 1 ids: the first sequence_length are inputs, the last sequence_length
  /// targets. In a stream t they are t[i L .. i L + L]. Error(kBadData) for an id outside [0, vocab_size),
  /// naming its place. `marks`, if not empty, has the same length and is filled as Batch::marks.
  void read_sequence(std::int64_t index, std::span<std::int64_t> ids, std::span<TokenMark> marks = {}) const;

 private:
  TokenFile(hdf5::File file, hdf5::Dataset tokens, const TokenFileOptions& options);
  /// Opens a file without the trial in a process of its own.
  static TokenFile open_here(const std::filesystem::path& path, const TokenFileOptions& options);
  [[nodiscard]] hdf5::Hyperslab box_of(std::int64_t index) const;
  /// Reads the tokens of a sequence without checking their ids.
  [[nodiscard]] std::span<const std::int64_t> read_any(std::int64_t index, std::span<std::int64_t> ids) const;
  [[nodiscard]] std::int64_t first_token(std::int64_t index) const;
  template <class Look>
  void look_at_marks(const TokenRange& run, const Look& look) const;
  void require_known(std::int64_t first_token, std::span<const std::int64_t> ids) const;
  void mark(std::int64_t index, std::span<const std::int64_t> ids, std::span<TokenMark> marks) const;
  [[nodiscard]] bool holds_target(std::span<const TokenMark> marks) const;

  hdf5::File file_;
  hdf5::Dataset tokens_;
  TokenFileOptions options_;
  bool is_stream_;
  std::int64_t token_count_;
  std::int64_t sequence_count_;
  std::optional<DocumentStarts> starts_;
  std::optional<LossMask> mask_;
  std::vector<DocumentPair> pairs_;
  AnswerCounts answers_;
};

}  // namespace sluice
