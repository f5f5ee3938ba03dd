// Log-probabilities of the answers of pairs under the reference of a preference, from files of scores.
#pragma once

#include "data/packer.hpp"
#include "data/score_file.hpp"
#include "data/token_file.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace sluice {

/// Files of scores under a reference, and the model that they must be of.
struct ReferenceOptions {
  std::vector<std::filesystem::path> files{};
  std::string structure_hash{};  ///< ParameterManifest::model_hash() of the job's model
  std::int64_t vocab_size = 0;
};

/// Scores of one token file under the reference.
class ReferenceScores {
 public:
  /// Finds the scores of `tokens` among the options' files, by the digest of the token file, for which that is read
  /// whole. Error(kBadData), which begins with the key that names the files, as ScoreFile::open(); for scores of other
  /// tokens alone; of another model.
  ReferenceScores(const ReferenceOptions& options, const TokenFile& tokens);

  /// Error(kBadData) unless there is a score of as many targets as this job reads of both answers of a pair.
  void require(const DocumentPair& documents, const PackedPair& pair) const;
  /// Log-probability of a document's targets.
  [[nodiscard]] double log_prob(std::int64_t document) const { return scores_.document(document).log_prob; }

 private:
  void require(std::int64_t document, const TokenRange& run) const;

  const TokenFile* tokens_;
  ScoreFile scores_;
};

/// Calls `visit` with each pair of the first `positions` sequences of a packer, those of one epoch at most, and `tell`
/// between them, at least once in a window.
void visit_pairs(const Packer& packer, std::int64_t positions,
                 const std::function<void(const PackedPair&)>& visit, const std::function<void()>& tell);

}  // namespace sluice
