#include "job/prepare/batch_options.hpp"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

BatchOptions batch_options(const JobConfig& config, std::int64_t vocab_size) {
  const DataSettings& data = config.data;
  TokenFileOptions file{.sequence_length = data.sequence_length, .vocab_size = vocab_size};
  if (data.separator_token >= 0) file.separator_token = data.separator_token;
  const bool evaluates = config.job.kind == JobKind::kEvaluate;
  file.keep_rest = evaluates;
  std::vector<TokenSource> sources;
  if (evaluates || data.source.empty())
    sources.push_back({data.tokens});
  else
    for (const SourceSettings& source : data.source) sources.push_back({source.tokens, source.weight});
  std::optional<PackOptions> pack;
  if (data.pack && !evaluates) pack = {data.pack_window, data.long_documents};
  return {.sources = std::move(sources),
          .file = file,
          .batch_sequences = config.train.batch_sequences,
          .pack = pack,
          .order = data.order,
          .seed = static_cast<std::uint64_t>(data.seed),
          .steps = evaluates ? std::numeric_limits<std::int64_t>::max() : config.train.steps};
}

BatchOptions held_out_options(const JobConfig& config, const std::filesystem::path& tokens,
                              std::int64_t vocab_size) {
  JobConfig evaluation = config;
  evaluation.job.kind = JobKind::kEvaluate;
  evaluation.data.tokens = tokens;
  return batch_options(evaluation, vocab_size);
}

}  // namespace sluice
