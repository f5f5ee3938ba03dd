#include "data/reference_scores.hpp"

#include "base/at_place.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

constexpr const char* kKey = "prefer.reference";
const Cause kOtherScores{ExitCode::kBadData, "data.other_scores"};

ScoreFile find(const std::vector<std::filesystem::path>& files, const TokenFile& tokens) {
  const std::string digest = tokens.digest().hex();
  std::vector<std::string> others;
  for (const std::filesystem::path& path : files) {
    ScoreFile scores = ScoreFile::open(path);
    if (scores.key().tokens_digest == digest) return scores;
    others.push_back(fmt::format("{} (of tokens {})", path.string(), scores.key().tokens_digest));
  }
  fail(
      kOtherScores,
      "found no scores of {}, but {}, expected some of tokens {}. Likely cause: the token file was made anew, or by "
      "another tokenizer, after it was scored; job.kind = \"score\" scores it again",
      tokens.name(), join_some(others), digest);
}

}  // namespace

ReferenceScores::ReferenceScores(const ReferenceOptions& options, const TokenFile& tokens)
    : tokens_(&tokens), scores_(at_place(kKey, [&] { return find(options.files, tokens); })) {
  const ScoreKey& key = scores_.key();
  if (key.structure_hash != options.structure_hash || key.vocab_size != options.vocab_size)
    fail(
        kOtherScores,
        "{}: {} is of a model with structure {} and {} tokens, expected structure {} and {} tokens, which model.path "
        "has. Likely cause: another model was scored",
        kKey, scores_.name(), key.structure_hash, key.vocab_size, options.structure_hash, options.vocab_size);
}

void ReferenceScores::require(std::int64_t document, const TokenRange& run) const {
  const std::int64_t found = at_place(kKey, [&] { return scores_.document(document); }).targets;
  const std::int64_t expected = tokens_->count_targets(run);
  if (found == expected) return;
  const std::string what = found < 0 ? "no score" : fmt::format("a score of {}", counted(found, "target"));
  fail(
      kOtherScores,
      "{}: {} has {} of document {} of {}, expected one of {}. Likely cause: other values of data.sequence_length or "
      "data.long_documents, which cut or left out documents when they were scored, or do so in this job",
      kKey, scores_.name(), what, document, tokens_->name(), counted(expected, "target"));
}

void ReferenceScores::require(const DocumentPair& documents, const PackedPair& pair) const {
  require(documents.chosen, pair.chosen);
  require(documents.rejected, pair.rejected);
}

void visit_pairs(const Packer& packer, std::int64_t positions,
                 const std::function<void(const PackedPair&)>& visit, const std::function<void()>& tell) {
  std::int64_t sequences = 0;
  for (std::int64_t number = 0; number < packer.windows() && sequences < positions; ++number) {
    tell();
    const PackedWindow window = packer.window(number);
    for (std::int64_t index = 0; index < window.sequences() && sequences < positions; ++index, ++sequences)
      for (const PackedPair& pair : window.pairs(index)) visit(pair);
  }
}

}  // namespace sluice
