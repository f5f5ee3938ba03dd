#include "job/answers/job_prompts.hpp"

#include "base/at_place.hpp"
#include "base/error.hpp"
#include "job/answers/model_text.hpp"

#include <utility>

namespace sluice {

bool answers_prompts(const JobConfig& config) {
  const bool trains = is_training(config.job.kind);
  return config.job.kind == JobKind::kGenerate || (trains && config.generate.every_steps > 0);
}

std::shared_ptr<const text::Tokenizer> tokenizer_for_stops(const std::filesystem::path& model) {
  std::shared_ptr<const text::Tokenizer> tokenizer = find_tokenizer(model);
  if (tokenizer == nullptr)
    fail({ExitCode::kBadData, "text.no_tokenizer"}, "{}: found no tokenizer.json, which generate.stop needs",
         model.string());
  return tokenizer;
}

JobPrompts read_job_prompts(const JobConfig& config, const ModelConfig& model,
                            std::shared_ptr<const text::Tokenizer> tokenizer) {
  JobPrompts read{at_place("generate.prompts", [&] { return read_prompts(config.generate.prompts); }),
                  std::move(tokenizer)};
  if (read.tokenizer == nullptr) read.tokenizer = find_tokenizer(config.model.path);
  encode_prompts(read.prompts, read.tokenizer.get(), config.model.path,
                 config.generate.chat ? PromptKind::kChat : PromptKind::kPlain);
  require_answerable(read.prompts, model, usable_positions(model, config.generate.max_sequence_length));
  return read;
}

}  // namespace sluice
