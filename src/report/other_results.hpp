// What a run's metrics file says beside its steps: what an evaluation found, and what loading took.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct EvaluatedDocument {
  std::int64_t document = 0;  ///< its place in the token file, from 0
  std::int64_t tokens = 0;    ///< that were predicted
  double loss = 0;            ///< nat/token
  double perplexity = 0;
};

/// Of an evaluation, which may still be under way.
struct EvaluationResult {
  std::int64_t documents = 0;  ///< that have ended
  std::int64_t tokens = 0;     ///< that were predicted, of all documents
  double loss = 0;             ///< nat/token, of all documents
  double perplexity = 0;
  std::vector<EvaluatedDocument> worst{};  ///< those of the highest loss, in that order
};

/// Nothing if the file has no evaluation, or none that has predicted a token yet. At most `most_documents` are listed.
/// Error(kBadData) if it is no metrics file.
[[nodiscard]] std::optional<EvaluationResult> read_evaluation(const std::filesystem::path& file,
                                                              std::int64_t most_documents);

/// What one rank's part of a load took.
struct LoadResult {
  std::int64_t shard_bytes = 0;
  double seconds = 0;
};

/// Of each rank; none until the load has finished. Error(kBadData) if the file is no metrics file.
[[nodiscard]] std::vector<LoadResult> read_load(const std::filesystem::path& file);

/// "1.45 MB on 3 ranks in 0.01 s", of at least one rank.
[[nodiscard]] std::string load_text(const std::vector<LoadResult>& ranks);

}  // namespace sluice
