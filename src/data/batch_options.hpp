// Options of a job's token files, and facts that the files turn out to hold.
#pragma once

#include "config/choices.hpp"
#include "data/mixture.hpp"
#include "data/packer.hpp"
#include "data/token_file.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace sluice {

/// A token file with its weight in the mixture.
struct TokenSource {
  std::filesystem::path tokens;
  double weight = 1;
};

/// Properties of one token file.
struct SourceFacts {
  std::int64_t sequences = 0;  ///< sequences in the file; for packed documents, the fewest they can make
  std::int64_t documents = 0;  ///< counted only with TokenFileOptions::keep_rest, and where they are packed
  bool marks_documents = false;
  bool masks_targets = false;
  bool is_packed = false;
  std::int64_t long_documents = 0;  ///< packed documents with more tokens than a sequence has inputs
  /// Sequences that the first documents of the first epoch were packed into.
  std::int64_t packed_sequences = 0;
  std::int64_t packed_inputs = 0;  ///< tokens that these have as inputs
};

/// Options of a job's batches.
struct BatchOptions {
  std::vector<TokenSource> sources;
  TokenFileOptions file;  ///< options of each file; keep_rest makes documents counted, and marked in any case
  std::int64_t batch_sequences = 0;   ///< global, over all ranks
  std::optional<PackOptions> pack{};  ///< the documents of each file; not with keep_rest
  DataOrder order = DataOrder::kShuffle;
  std::uint64_t seed = 0;
  std::int64_t steps = 0;  ///< batches that will be asked for

  /// The order in which such files are read.
  [[nodiscard]] Mixture mixture(const std::vector<SourceFacts>& facts) const;
  /// Whether documents are kept apart: a file or the options say where they begin. Always in an evaluation.
  [[nodiscard]] bool marks_documents(const std::vector<SourceFacts>& facts) const;
  /// Sequences of each file that are read in all: with keep_rest each once, else those of the steps.
  [[nodiscard]] std::vector<std::int64_t> taken_in_all(const std::vector<SourceFacts>& facts) const;
};

}  // namespace sluice
