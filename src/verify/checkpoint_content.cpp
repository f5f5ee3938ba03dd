#include "verify/checkpoint_content.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/json_object.hpp"
#include "model/blocks/embedding_and_head.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace sluice {
namespace {

namespace fs = std::filesystem;

using blocks::embedding_and_head::kEmbedding;
using blocks::embedding_and_head::kHead;

/// Whether config.json ties the head; false if it is missing or not understood.
bool ties_head(const fs::path& directory) {
  constexpr std::int64_t kLargestConfig = 100'000'000;
  std::error_code error;
  if (!fs::is_regular_file(directory / "config.json", error)) return false;
  nlohmann::json config;
  try {
    config = parse_json_object(read_text_file(directory / "config.json", kLargestConfig), "");
  } catch (const Error& refusal) {
    if (refusal.code() != ExitCode::kBadData) throw;
    return false;
  }
  const auto tie = [](const nlohmann::json& object) {
    return object.is_object() ? object.value("tie_word_embeddings", nlohmann::json()) : nlohmann::json();
  };
  if (tie(config).is_boolean()) return tie(config).get<bool>();
  const auto text = config.value("text_config", nlohmann::json());
  return tie(text).is_boolean() && tie(text).get<bool>();
}

void refuse_repetitions(const std::vector<PublishedDigest>& sorted, const CheckpointIndex& index,
                        const fs::path& directory) {
  std::vector<std::string> twice;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].name != sorted[i - 1].name) continue;
    const auto spelling = [&](const PublishedDigest& tensor) {
      const CheckpointEntry& entry = index.entries[static_cast<std::size_t>(tensor.entry)];
      return fmt::format("{} ({})", printable(entry.name),
                         index.files[static_cast<std::size_t>(entry.file)].name);
    };
    twice.push_back(fmt::format("{}: in {} and in {}", printable(sorted[i].name), spelling(sorted[i - 1]),
                                spelling(sorted[i])));
  }
  if (!twice.empty())
    fail({ExitCode::kBadData, "weights.index"}, "{}: found {} tensors twice, expected each once:{}",
         directory.string(), twice.size(), lines_of_some(twice, 100));
}

std::string text_of(const PublishedDigest& tensor) {
  return fmt::format("{} {} {}", name_of(tensor.dtype), shape_text(tensor.shape), tensor.digest.hex());
}

bool is_same(const PublishedDigest& a, const PublishedDigest& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.digest == b.digest;
}

/// Whether `tensor` is an lm_head that `there` does not need: it is tied there, and is tied here too or
/// equals the embedding.
bool is_spare_head(const PublishedDigest& tensor, const CheckpointContent& here,
                   const CheckpointContent& there) {
  if (tensor.name != kHead || !there.tied) return false;
  const PublishedDigest* embedding = here.find(std::string(kEmbedding));
  return here.tied || (embedding != nullptr && is_same(tensor, *embedding));
}

/// Lists the tensors of `here` that `there` lacks.
void list_missing(const CheckpointContent& here, const CheckpointContent& there,
                  std::vector<std::string>& only, std::vector<std::string>& spare) {
  for (const PublishedDigest& tensor : here.tensors) {
    if (there.find(tensor.name) != nullptr) continue;
    const bool is_spare = ignored_key(tensor.name) || is_spare_head(tensor, here, there);
    (is_spare ? spare : only).push_back(tensor.name);
  }
}

}  // namespace

Digest CheckpointContent::digest() const {
  Digest sum;
  for (const PublishedDigest& tensor : tensors)
    if (!ignored_key(tensor.name) && !(tied && tensor.name == kHead)) sum += tensor.identity();
  return sum;
}

const PublishedDigest* CheckpointContent::find(const std::string& name) const {
  const auto found = std::ranges::lower_bound(tensors, name, {}, &PublishedDigest::name);
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

CheckpointContent read_content(const CheckpointIndex& index, const fs::path& directory,
                               const ParameterManifest* manifest,
                               const std::function<void(std::int64_t)>& progress) {
  CheckpointContent content{digest_checkpoint(index, directory, manifest, progress), ties_head(directory)};
  std::ranges::sort(content.tensors, {}, &PublishedDigest::name);
  refuse_repetitions(content.tensors, index, directory);
  return content;
}

ContentComparison compare(const CheckpointContent& here, const CheckpointContent& there) {
  ContentComparison comparison;
  list_missing(here, there, comparison.only_here, comparison.spare_here);
  list_missing(there, here, comparison.only_there, comparison.spare_there);
  for (const PublishedDigest& tensor : here.tensors)
    if (const PublishedDigest* other = there.find(tensor.name); other && !is_same(tensor, *other))
      comparison.different.push_back({tensor.name, text_of(tensor), text_of(*other)});
  return comparison;
}

}  // namespace sluice
