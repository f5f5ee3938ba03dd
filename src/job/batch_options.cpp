#include "job/batch_options.hpp"

#include <cstdint>
#include <limits>

namespace sluice {

BatchOptions batch_options(const Blueprint& blueprint) {
  const DataSettings& data = blueprint.config.data;
  TokenFileOptions file{.sequence_length = data.sequence_length,
                        .vocab_size = blueprint.model.config.vocab_size};
  if (data.separator_token >= 0) file.separator_token = data.separator_token;
  const bool evaluates = blueprint.config.job.kind == JobKind::kEvaluate;
  file.keep_rest = evaluates;
  return {.tokens = data.tokens,
          .file = file,
          .batch_sequences = blueprint.config.train.batch_sequences,
          .order = data.order,
          .seed = static_cast<std::uint64_t>(data.seed),
          .steps = evaluates ? std::numeric_limits<std::int64_t>::max() : blueprint.config.train.steps};
}

}  // namespace sluice
