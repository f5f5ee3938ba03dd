#include "data/source_files.hpp"

namespace sluice {

SourceFiles::SourceFiles(const BatchOptions& options) {
  for (const TokenSource& source : options.sources) {
    const TokenFile& file = files_.emplace_back(TokenFile::open(source.tokens, options.file));
    facts_.push_back({.sequences = file.sequence_count(),
                      .documents = options.file.keep_rest ? file.count_documents() : 0,
                      .marks_documents = file.marks_documents(),
                      .masks_targets = file.masks_targets()});
  }
  const Mixture mixture = options.mixture(facts_);
  const std::vector<std::int64_t> read = options.taken_in_all(facts_);
  for (std::size_t source = 0; source < files_.size(); ++source)
    checks_.emplace_back(mixture.sampler(source), read[source], options.file.sequence_length);
}

std::int64_t SourceFiles::check_pieces() const {
  std::int64_t pieces = 0;
  for (const IdCheck& check : checks_) pieces += check.pieces();
  return pieces;
}

void SourceFiles::check_ids(std::int64_t piece) const {
  std::size_t source = 0;
  for (; piece >= checks_[source].pieces(); ++source) piece -= checks_[source].pieces();
  checks_[source].run(files_[source], piece);
}

}  // namespace sluice
