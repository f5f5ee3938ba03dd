#include "report/other_results.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "io/hdf5.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

namespace sluice {
namespace {

/// Most numbers in a list: a file may claim any size.
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 26;

/// A list of numbers; empty if the file does not have it.
template <class T>
std::vector<T> numbers_in(const hdf5::File& file, const std::string& group, const std::string& name) {
  const std::string path = group + "/" + name;
  if (!file.exists(group) || !file.exists(path)) return {};
  const hdf5::Dataset dataset = file.dataset(path);
  const std::vector<std::int64_t> shape = dataset.shape();
  if (shape.size() != 1 || shape[0] > kMostNumbers || (!dataset.is_integer() && !dataset.is_floating()))
    fail(ExitCode::kBadData, "{}: {} has the shape {}; expected a list of numbers", file.name(), path,
         shape_text(shape));
  return dataset.read<T>();
}

std::vector<EvaluatedDocument> worst_documents(const hdf5::File& file, std::int64_t most) {
  const auto tokens = numbers_in<std::int64_t>(file, "/evaluate", "tokens");
  const auto losses = numbers_in<double>(file, "/evaluate", "loss");
  const auto perplexities = numbers_in<double>(file, "/evaluate", "perplexity");
  const std::size_t rows = std::min({tokens.size(), losses.size(), perplexities.size()});
  std::vector<EvaluatedDocument> documents;
  for (std::size_t i = 0; i < rows; ++i)
    if (std::isfinite(losses[i]))
      documents.push_back({static_cast<std::int64_t>(i), tokens[i], losses[i], perplexities[i]});
  const auto count = std::min(most, std::ssize(documents));
  std::ranges::partial_sort(documents, documents.begin() + count, std::ranges::greater(),
                            &EvaluatedDocument::loss);
  documents.resize(static_cast<std::size_t>(count));
  return documents;
}

}  // namespace

std::optional<EvaluationResult> read_evaluation(const std::filesystem::path& path,
                                                std::int64_t most_documents) {
  const hdf5::File file = hdf5::File::open(path);
  const auto tokens = numbers_in<std::int64_t>(file, "/evaluate", "total_tokens");
  const auto loss = numbers_in<double>(file, "/evaluate", "total_loss");
  const auto perplexity = numbers_in<double>(file, "/evaluate", "total_perplexity");
  if (tokens.empty() || tokens[0] <= 0 || loss.empty() || perplexity.empty()) return std::nullopt;
  return EvaluationResult{std::ssize(numbers_in<std::int64_t>(file, "/evaluate", "tokens")), tokens[0],
                          loss[0], perplexity[0], worst_documents(file, most_documents)};
}

std::vector<LoadResult> read_load(const std::filesystem::path& path) {
  const hdf5::File file = hdf5::File::open(path);
  const auto bytes = numbers_in<std::int64_t>(file, "/load", "shard_bytes");
  const auto seconds = numbers_in<double>(file, "/load", "seconds");
  std::vector<LoadResult> ranks;
  for (std::size_t rank = 0; rank < std::min(bytes.size(), seconds.size()); ++rank)
    if (bytes[rank] >= 0 && std::isfinite(seconds[rank])) ranks.push_back({bytes[rank], seconds[rank]});
  return ranks;
}

std::string load_text(const std::vector<LoadResult>& ranks) {
  LoadResult all;
  for (const LoadResult& rank : ranks) {
    all.shard_bytes += rank.shard_bytes;
    all.seconds = std::max(all.seconds, rank.seconds);
  }
  return fmt::format("{} on {} rank{} in {:.2f} s", format_bytes(all.shard_bytes), ranks.size(),
                     ranks.size() == 1 ? "" : "s", all.seconds);
}

}  // namespace sluice
