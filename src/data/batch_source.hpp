// Global batches, the same for any number of ranks, of which each rank gets its share.
#pragma once

#include "comm/communicator.hpp"
#include "data/batch.hpp"
#include "data/sampler.hpp"
#include "data/token_file.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace sluice {

struct BatchOptions {
  std::filesystem::path tokens;
  TokenFileOptions file;             ///< with keep_rest documents are counted, and marked in any case
  std::int64_t batch_sequences = 0;  ///< global, over all ranks
  DataOrder order = DataOrder::kShuffle;
  std::uint64_t seed = 0;
  std::int64_t steps = 0;  ///< batches that will be asked for

  /// The order in which a file with `sequences` sequences is read.
  [[nodiscard]] Sampler sampler(std::int64_t sequences) const {
    return {sequences, batch_sequences, order, seed};
  }
};

class BatchSource {
 public:
  /// Collective over `comm`, which must outlive this. Rank 0 alone opens the file, and looks at all ids that
  /// the steps will read; its failure is thrown on every rank.
  BatchSource(Communicator& comm, BatchOptions options);

  [[nodiscard]] std::int64_t sequence_count() const { return sequence_count_; }
  /// Whether documents are kept apart: the file or the options say where they begin. Always in an evaluation.
  [[nodiscard]] bool marks_documents() const { return marks_documents_; }
  /// Whether the file says which tokens are targets.
  [[nodiscard]] bool masks_targets() const { return masks_targets_; }
  /// Documents in the file; counted only with TokenFileOptions::keep_rest.
  [[nodiscard]] std::int64_t document_count() const { return document_count_; }

  /// Collective over the communicator. Digest of up to 16 sequences of the first batch, to know the file by.
  [[nodiscard]] std::string sample_digest();

  /// Collective over the communicator. This rank's share of the batch of `step`, possibly no sequence. Rank 0
  /// holds the global batch meanwhile (8 bytes a token, 9 with documents), the others their share alone. A
  /// bad id found by rank 0 is thrown on every rank; Error(kBadData) if no token of the batch has another of
  /// its document behind it, unless the file masks targets: then a batch may be without any.
  [[nodiscard]] Batch batch(std::int64_t step);

  /// Collective over the communicator, and as costly. This rank's share of sequences [first, first + count).
  [[nodiscard]] Batch sequences(std::int64_t first, std::int64_t count);

 private:
  [[nodiscard]] Batch share(const std::vector<std::int64_t>& sequences);
  [[nodiscard]] Batch read(const std::vector<std::int64_t>& sequences) const;
  [[nodiscard]] bool has_marks() const { return marks_documents_ || masks_targets_; }
  void check_ids();

  Communicator& comm_;
  BatchOptions options_;
  std::optional<TokenFile> file_;  ///< rank 0 alone
  std::int64_t sequence_count_ = 0;
  std::int64_t document_count_ = 0;
  bool marks_documents_ = false;
  bool masks_targets_ = false;
};

}  // namespace sluice
