// Log-probabilities that a model gives to the tokens of a file, by document and by place (FORMAT.md). One rank reads
// or writes them.
#pragma once

#include "config/job_config.hpp"
#include "data/document_starts.hpp"
#include "data/token_distributions.hpp"
#include "io/hdf5.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Score of a document.
struct DocumentScore {
  double log_prob = 0;       ///< sum of the log-probabilities of its targets, in nats
  std::int64_t targets = 0;  ///< number of targets; -1: the document was left out
  std::int64_t greedy = 0;   ///< number of targets that are the most probable token

  /// Adds a target with this log-probability, the most probable token or not.
  void add(double of_target, bool is_greedy) {
    log_prob += of_target;
    ++targets;
    greedy += is_greedy ? 1 : 0;
  }
};

/// What scores are of, and how they were made: two files with equal keys have equal scores, but for rounding.
struct ScoreKey {
  std::string tokens_digest;  ///< digest of the token file, see TokenFile::digest()
  std::string model_digest;
  std::string adapter_digest;  ///< digest of the adapter; "": none
  std::string structure_hash;  ///< ParameterManifest::model_hash() of the model
  std::string
      long_documents;  ///< what became of documents longer than a sequence: "cut" or "leave_out"; "": none is
  std::int64_t vocab_size = 0;
  std::int64_t sequence_length = 0;
  std::int64_t batch_sequences = 0;      ///< sequences per step; a run goes on at a step
  std::int64_t pack_window = 0;          ///< documents that were packed together
  std::int64_t documents = 0;            ///< documents of the token file
  std::int64_t tokens = 0;               ///< tokens of the token file
  std::string distribution = "none";     ///< score.distribution
  std::int64_t distribution_tokens = 0;  ///< number of tokens kept of each target's distribution
  std::int64_t distribution_seed = 0;    ///< seed of draws
  double temperature = 1;                ///< temperature of the distributions
  bool has_tokens = false;               ///< whether the log-probability of each token is kept
  /// Digest of the tokenizer whose vocabulary the model has, which follows from the other digests; "": unknown.
  std::string tokenizer_digest{};

  [[nodiscard]] bool is_top() const { return distribution == "top"; }
};

/// Bytes that scores take in a file for each document.
inline constexpr std::int64_t kScoreBytes = 24;
/// Bytes that scores with these settings take in a file for each token.
[[nodiscard]] std::int64_t token_score_bytes(const ScoreSettings& settings);
/// Bytes that scores with these settings take in a file.
[[nodiscard]] inline std::int64_t score_bytes(std::int64_t documents, std::int64_t tokens,
                                              const ScoreSettings& settings) {
  return kScoreBytes * documents + token_score_bytes(settings) * tokens;
}

/// Error(kBadConfig) if there is a file of another key, which the job with the key `setting` then refuses to go on
/// with; Error(kBadData) if it is no file of scores.
void require_same_scores(const std::filesystem::path& path, const ScoreKey& key,
                         std::string_view setting = "score.file");

/// The datasets of documents in a file of scores, a number for each document.
struct DocumentDatasets {
  hdf5::Dataset log_prob, targets, greedy;

  [[nodiscard]] DocumentScore read(std::int64_t document) const;
};

/// The datasets of distributions in a file of scores.
struct DistributionDatasets {
  hdf5::Dataset ids, values;
  std::optional<hdf5::Dataset> rest;  ///< probabilities of all other tokens; nothing if the tokens were drawn
  std::optional<hdf5::Dataset> tokens;  ///< the scored tokens; nothing in files of earlier versions
};

/// A file of scores that is complete.
class ScoreFile {
 public:
  /// Error(kBadData) if the file is missing, broken, of another format, or not complete.
  static ScoreFile open(const std::filesystem::path& path);

  [[nodiscard]] const std::string& name() const { return file_.name(); }
  [[nodiscard]] const ScoreKey& key() const { return key_; }
  /// Score of a document. Error(kBadData) for numbers that are no score.
  [[nodiscard]] DocumentScore document(std::int64_t number) const;
  /// Log-probability of each token of a run; NaN: the token is no target. Error(kBadData) if the file has none.
  [[nodiscard]] std::vector<float> tokens(const TokenRange& run) const;
  /// Ids of the tokens of a run that were scored; -1: the token was not scored, or the file does not tell.
  [[nodiscard]] std::vector<std::int64_t> scored_tokens(const TokenRange& run) const;
  /// Distributions of a run of tokens, as they are learnt. Error(kBadData) if the file has none, and for numbers
  /// that are no distribution, or ids outside of a vocabulary of `vocab_size`, with the number of the token.
  [[nodiscard]] TeacherRows distributions(const TokenRange& run, std::int64_t vocab_size) const;

 private:
  ScoreFile(hdf5::File file, ScoreKey key);

  hdf5::File file_;
  ScoreKey key_;
  DocumentDatasets documents_;
  std::optional<hdf5::Dataset> tokens_;
  std::optional<DistributionDatasets> distributions_;
};

/// Writes a file of scores that survives the death of the process between any two calls.
class ScoreWriter {
 public:
  /// Creates the file, with every document left out, or goes on with one of the same key. Error(kBadConfig) if
  /// there is a file of another key; Error(kBadData) if it is no file of scores; Error(kIo).
  /// `setting`: key of the job that asks for the file, for messages.
  ScoreWriter(const std::filesystem::path& path, const ScoreKey& key,
              std::string_view setting = "score.file");

  /// Number of sequences whose scores are in the file.
  [[nodiscard]] std::int64_t sequences_done() const { return sequences_done_; }
  [[nodiscard]] bool is_complete() const { return is_complete_; }

  /// Whether the score of a document is in the file.
  [[nodiscard]] bool has(std::int64_t document) const;
  /// Writes the score of a document of which tokens `run` were read; `log_probs` has one number for each, NaN
  /// for those that are no targets, and is ignored unless the key has tokens. Error(kIo).
  void write(std::int64_t document, const DocumentScore& score, const TokenRange& run,
             std::span<const float> log_probs);
  /// Writes the distributions of tokens `run`, if the key has any, and the ids of these tokens. Error(kIo).
  void write(const TokenRange& run, std::span<const std::int64_t> ids,
             const TokenDistributions& distributions);
  /// Makes everything written so far count: a later writer goes on behind `sequences_done` sequences. Error(kIo).
  void commit(std::int64_t sequences_done);
  /// Sums over all documents in the file, and their number.
  [[nodiscard]] std::pair<DocumentScore, std::int64_t> totals() const;
  /// Marks the file as complete and closes it. Error(kIo).
  void finish();

 private:
  hdf5::File file_;
  std::optional<DocumentDatasets> documents_;  ///< nothing once the file is closed
  std::optional<hdf5::Dataset> tokens_;
  std::optional<DistributionDatasets> distributions_;
  std::int64_t sequences_done_ = 0;
  bool is_complete_ = false;
};

}  // namespace sluice
