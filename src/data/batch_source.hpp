// Source of global batches, the same for any number of ranks, of which each rank gets its share.
#pragma once

#include "comm/communicator.hpp"
#include "data/batch.hpp"
#include "data/batch_options.hpp"
#include "data/source_files.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Batches of a job: rank 0 reads the token files, and every rank gets its sequences.
class BatchSource {
 public:
  /// Collective over `comm`, which must outlive this object. Rank 0 alone opens the files, and checks all ids
  /// and masks that the steps will read; its failure is thrown on every rank, as is Error(kBadData) if they
  /// read no target.
  BatchSource(Communicator& comm, BatchOptions options);

  /// Facts of each file, on every rank.
  [[nodiscard]] const std::vector<SourceFacts>& facts() const { return facts_; }
  /// Number of sequences in all files together.
  [[nodiscard]] std::int64_t sequence_count() const;
  /// Whether documents are kept apart, because a file or the options say where they begin. Always in an
  /// evaluation.
  [[nodiscard]] bool marks_documents() const { return marks_documents_; }
  /// Whether a file says which tokens are targets.
  [[nodiscard]] bool masks_targets() const { return masks_targets_; }
  /// What the distributions of the teachers have in common, on every rank.
  [[nodiscard]] const TeacherFacts& teacher() const { return teacher_; }
  /// Number of documents in the files; counted only with TokenFileOptions::keep_rest, or if they are packed.
  [[nodiscard]] std::int64_t document_count() const;

  /// Positions of the packed sources before the batch of `step`, for go_on(), on rank 0; empty on others and
  /// where nothing is packed.
  [[nodiscard]] std::vector<PackPosition> positions(std::int64_t step);
  /// Goes on with the batch of `step` from the positions that positions() returned for it, so that no earlier
  /// window is packed again. Does nothing on ranks other than 0.
  void go_on(std::int64_t step, const std::vector<PackPosition>& positions);
  /// Number of epochs of each source completed before the batch of `step`, on rank 0; empty on other ranks.
  [[nodiscard]] std::vector<double> epochs(std::int64_t step);

  /// Collective over the communicator. SourceFiles::take_reference() on rank 0; its errors are thrown on every rank.
  void take_reference(const ReferenceOptions& options);

  /// The token files, on rank 0; null on other ranks.
  [[nodiscard]] SourceFiles* files() { return files_ ? &*files_ : nullptr; }

  /// Collective over the communicator. Digest that identifies the token files, see
  /// SourceFiles::sample_digest().
  [[nodiscard]] std::string sample_digest();
  /// Collective over the communicator. Digest of all tokens, see SourceFiles::whole_digest().
  [[nodiscard]] std::string whole_digest();

  /// Collective over the communicator. This rank's share of the batch of `step`, possibly no sequence. Rank 0
  /// holds the global batch meanwhile (8 bytes a token, 9 with documents), the others their share alone. A
  /// bad id found by rank 0 is thrown on every rank. A batch may have no target.
  [[nodiscard]] Batch batch(std::int64_t step);

  /// Collective over the communicator. This rank's share of sequences [first, first + count) of the only
  /// file; as costly as batch().
  [[nodiscard]] Batch sequences(std::int64_t first, std::int64_t count);
  /// Number of batches of `batch_sequences` sequences in the only file, of which the last may have fewer.
  [[nodiscard]] std::int64_t batches_in_order(std::int64_t batch_sequences) const;
  /// Collective over the communicator. This rank's share of one of these batches.
  [[nodiscard]] Batch batch_in_order(std::int64_t number, std::int64_t batch_sequences);

 private:
  [[nodiscard]] Batch share(const std::vector<Mixture::Place>& places);
  [[nodiscard]] TeacherRows share_teacher(const TeacherRows& whole, std::int64_t sequences);
  void share_pairs(const std::vector<PreferencePair>& whole, std::int64_t sequences, Batch& own);
  [[nodiscard]] bool has_marks() const { return marks_documents_ || masks_targets_; }
  void check_tokens();

  Communicator& comm_;
  BatchOptions options_;
  std::optional<SourceFiles> files_;  ///< token files, on rank 0 alone
  std::vector<SourceFacts> facts_;
  TeacherFacts teacher_;
  std::optional<Mixture> mixture_;  ///< the mixture, once the sources' facts are known
  bool marks_documents_ = false;
  bool masks_targets_ = false;
};

}  // namespace sluice
