// Options of a job's token files, and facts that are found in the files.
#pragma once

#include "config/choices.hpp"
#include "data/mixture.hpp"
#include "data/packer.hpp"
#include "data/token_file.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// A token file with its weight in the mixture.
struct TokenSource {
  std::filesystem::path tokens;
  double weight = 1;
  std::string key = "data.tokens";  ///< key of the job that names the file, for messages
};

/// Facts about one token file.
struct SourceFacts {
  /// Number of sequences in the file; for packed documents the least number that they can make, or with
  /// TokenFileOptions::keep_rest the number that they make.
  std::int64_t sequences = 0;
  /// Number of documents, or of pairs; counted only with TokenFileOptions::keep_rest, or if they are packed.
  std::int64_t documents = 0;
  bool marks_documents = false;
  bool masks_targets = false;
  bool is_packed = false;
  bool holds_pairs = false;  ///< whether the file has pairs, whatever the job does with its documents
  bool has_pairs = false;    ///< whether pairs are packed; `documents` and the following numbers count these
  /// Number of packed documents, or pairs, with more tokens than a sequence has inputs.
  std::int64_t long_documents = 0;
  std::int64_t left_out = 0;  ///< number of pairs that lie in no sequence
  /// Number of sequences into which the first documents of the first epoch were packed.
  std::int64_t packed_sequences = 0;
  std::int64_t packed_inputs = 0;  ///< number of tokens that these sequences have as inputs
};

/// Options of a job's batches.
struct BatchOptions {
  std::vector<TokenSource> sources;
  TokenFileOptions file;  ///< options of each file; with keep_rest documents are counted, and always marked
  std::int64_t batch_sequences = 0;  ///< sequences per batch over all ranks
  /// Options for packing the documents, or pairs, of each file. With keep_rest their first epoch is read, in the
  /// order of the file.
  std::optional<PackOptions> pack{};
  DataOrder order = DataOrder::kShuffle;
  std::uint64_t seed = 0;
  std::int64_t steps = 0;  ///< number of batches that will be read

  std::vector<std::filesystem::path> teachers{};  ///< files of scores whose distributions are learnt
  double teacher_temperature = 0;                 ///< temperature that they must have; 0: any
  /// Digest of the tokenizer of the job's model, "" if it is unknown; called where the files are opened, if at all.
  std::function<std::string()> tokenizer_digest{};
  bool keeps_places = false;  ///< whether batches have the number of each token in its file

  /// Whether batches have pairs.
  [[nodiscard]] bool has_pairs() const { return pack && pack->unit == PackUnit::kPair; }
  /// Mixture of files with these facts: the order in which they are read.
  [[nodiscard]] Mixture mixture(const std::vector<SourceFacts>& facts) const;
  /// Whether documents are kept apart, because a file or the options say where they begin. Always in an
  /// evaluation.
  [[nodiscard]] bool marks_documents(const std::vector<SourceFacts>& facts) const;
  /// Number of sequences of each file that are read in all: with keep_rest all once, else those of the steps.
  [[nodiscard]] std::vector<std::int64_t> taken_in_all(const std::vector<SourceFacts>& facts) const;
};

}  // namespace sluice
