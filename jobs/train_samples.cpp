#include "train_samples.hpp"

#include "answer_texts.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "generation.hpp"
#include "io/file.hpp"
#include "plan/answer_memory.hpp"
#include "process/console.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

namespace sluice {

TrainSamples::TrainSamples(JobContext& context, Trainer& trainer, std::int64_t steps_done)
    : context_(context) {
  const JobConfig& config = context.config();
  if (config.generate.every_steps == 0) return;
  const ModelConfig& model = context.blueprint.model.config;
  const std::int64_t positions = usable_positions(model, config.generate.max_sequence_length);
  options_ = generation_options(config);
  // No more tokens than the plan has counted for a step.
  options_.settings.prefill_tokens = std::min(
      options_.settings.prefill_tokens, config.data.sequence_length * config.train.micro_batch_sequences);
  prompts_ = prompts_of(context);
  requests_ = share_requests(context.comm, [&] {
    keep_samples_until(steps_done);
    std::vector<GenerationRequest> requests;
    for (const Prompt& prompt : prompts_.prompts) requests.push_back({std::ssize(requests), prompt.tokens});
    return requests;
  });
  forward_ = std::make_unique<CachedForward>(
      trainer.binder(), model, answer_slots(config.generate.batch_sequences, context.comm.size()), positions);
}

void TrainSamples::keep_samples_until(std::int64_t step) const {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
  const std::filesystem::path file = context_.directory.new_file(context_.config().generate.output);
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return;
  std::string kept;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line) && std::ssize(kept) < kMostBytes;) {
    const auto sample = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (sample.is_object() && sample.value("step", step + 1) <= step) kept += line + "\n";
  }
  write_text_file(file, kept);
}

std::vector<SampleRow> TrainSamples::after_step(std::int64_t step) {
  std::vector<SampleRow> rows;
  if (forward_ == nullptr || step % context_.config().generate.every_steps != 0) return rows;
  AnswerTexts texts(context_, prompts_.tokenizer, prompts_.prompts);
  const auto listener = [&](std::size_t request, std::int64_t token) {
    return texts.take_token(request, token);
  };
  static_cast<void>(generate(*forward_, requests_, options_, listener, [&](const Generation& answer) {
    take(step, answer, texts.json_of(answer.request, answer));
    rows.push_back({step, static_cast<std::int64_t>(answer.request), answer.tokens});
  }));
  return rows;
}

void TrainSamples::take(std::int64_t step, const Generation& answer, nlohmann::json sample) const {
  console::line("sample    step {}  prompt {}: {}", step, prompts_.prompts[answer.request].id,
                sample.contains("text") ? printable(sample["text"].get<std::string>())
                                        : fmt::format("{}", fmt::join(answer.tokens, ",")));
  sample["step"] = step;
  const std::filesystem::path file = context_.directory.file(context_.config().generate.output);
  std::ofstream out(file, std::ios::app);
  out << sample.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n' << std::flush;
  if (!out)
    fail(write_failure(errno), "generate.output: cannot write {}: {}", file.string(), errno_text(errno));
}

}  // namespace sluice
