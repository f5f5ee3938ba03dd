// Results in a run's metrics file besides its steps: of an evaluation, and of loading.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Loss of one document in an evaluation.
struct EvaluatedDocument {
  std::int64_t document = 0;  ///< index of the document in the token file
  std::int64_t tokens = 0;    ///< number of predicted tokens
  double loss = 0;            ///< mean loss, nats per token
  double perplexity = 0;
};

/// Result of an evaluation, which may still be running.
struct EvaluationResult {
  std::int64_t documents = 0;  ///< number of documents that have ended
  std::int64_t tokens = 0;     ///< number of predicted tokens in all documents
  double loss = 0;             ///< mean loss over all documents, nats per token
  double perplexity = 0;
  std::vector<EvaluatedDocument> worst{};  ///< documents with the highest loss, in descending order
};

/// Reads the result of an evaluation; nothing if the file has none, or none that has predicted a token yet.
/// At most `most_documents` are listed. Error(kBadData) if it is not a metrics file.
[[nodiscard]] std::optional<EvaluationResult> read_evaluation(const std::filesystem::path& file,
                                                              std::int64_t most_documents);

/// Cost of a load on one rank.
struct LoadResult {
  std::int64_t shard_bytes = 0;
  double seconds = 0;
};

/// Reads the load results of each rank; empty until the load has finished. Error(kBadData) if the file is not
/// a metrics file.
[[nodiscard]] std::vector<LoadResult> read_load(const std::filesystem::path& file);

/// Text of a load on at least one rank: "1.45 MB on 3 ranks in 0.01 s".
[[nodiscard]] std::string load_text(const std::vector<LoadResult>& ranks);

}  // namespace sluice
