#include "job/prepare/input_check.hpp"

#include "base/bytes.hpp"
#include "corpus/model_tokens.hpp"
#include "corpus/source/source_form.hpp"
#include "data/source_files.hpp"
#include "io/file.hpp"
#include "job/answers/job_prompts.hpp"
#include "job/console.hpp"
#include "job/prepare/batch_options.hpp"
#include "job/prepare/start_notes.hpp"
#include "job/prepare/text_tokens.hpp"
#include "text/tokenizer.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Checks all ids and masks that the job reads. Error(kBadData) as SourceFiles::check().
void check_pieces(SourceFiles& files) {
  for (std::int64_t piece = 0; piece < files.check_pieces(); ++piece) files.check(piece);
}

/// Checks the tokenizer and its files, which tokenize texts.
void check_text_model(const JobConfig& config) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(config.model.path);
  static_cast<void>(corpus::read_end_token(config.model.path, tokenizer, ""));
}

void check_text(const fs::path& text) {
  const bool is_rows = corpus::form_of_file(text) != corpus::SourceForm::kText;
  console::line("data      {} is {} of {}, of which the job makes tokens", text.string(),
                is_rows ? "rows of JSON" : "text", format_bytes(InputFile::open(text).size_bytes()));
}

DataIdentity check_sources(const JobConfig& config, const BatchOptions& options) {
  SourceFiles files(options);
  check_pieces(files);
  console::line("data      {}", data_text(config, files.facts()));
  return {files.mixture().sequences(), files.sample_digest()};
}

std::optional<DataIdentity> check_trained_tokens(const JobConfig& config, std::int64_t vocab_size,
                                                 Findings& findings) {
  const BatchOptions options = batch_options(config, vocab_size);
  const auto is_text = [](const TokenSource& source) { return corpus::is_text(source.tokens); };
  std::optional<DataIdentity> data;
  if (std::ranges::none_of(options.sources, is_text)) {
    findings.examine([&] { data = check_sources(config, options); });
    return data;
  }
  // The share of each file that is read is known only when all files exist.
  for (const TokenSource& source : options.sources)
    if (!is_text(source)) findings.examine([&] { TokenFile::open(source.tokens, options.file); });
  return data;
}

void check_held_out(const JobConfig& config, const fs::path& tokens, std::int64_t vocab_size) {
  SourceFiles files(held_out_options(config, tokens, vocab_size));
  check_pieces(files);
  console::line("held out  {}: {} sequences, {} documents", tokens.string(), files.facts().front().sequences,
                files.facts().front().documents);
}

}  // namespace

std::optional<DataIdentity> check_token_inputs(const JobConfig& config, std::int64_t vocab_size,
                                               Findings& findings) {
  const bool trains = config.job.kind == JobKind::kTrain;
  if (!trains && config.job.kind != JobKind::kEvaluate) return std::nullopt;
  std::vector<fs::path> texts;
  bool is_known = false;
  findings.examine([&] {
    texts = texts_of(config);
    is_known = true;
  });
  if (!is_known) return std::nullopt;  // a pipe or compressed file is no input of tokens
  if (!texts.empty()) findings.examine([&] { check_text_model(config); });
  for (const fs::path& text : texts) findings.examine([&] { check_text(text); });
  const std::optional<DataIdentity> data = check_trained_tokens(config, vocab_size, findings);
  if (!trains || config.evaluate.every_steps == 0) return data;
  for (const fs::path& tokens : config.evaluate.tokens)
    if (!corpus::is_text(tokens)) findings.examine([&] { check_held_out(config, tokens, vocab_size); });
  return data;
}

void check_prompts(const JobConfig& config, const ModelConfig& model) {
  if (!answers_prompts(config)) return;
  if (!config.generate.stop.empty()) static_cast<void>(tokenizer_for_stops(config.model.path));
  if (!config.generate.ignore_eos) static_cast<void>(read_end_tokens(config.model.path));
  const JobPrompts read = read_job_prompts(config, model);
  std::int64_t tokens = 0;
  for (const Prompt& prompt : read.prompts) tokens += std::ssize(prompt.tokens);
  console::line("prompts   {} of {} tokens in {}", read.prompts.size(), tokens,
                config.generate.prompts.string());
  if (const std::string unused = unused_keys_text(read.prompts); !unused.empty())
    console::line("prompts   {}", unused);
}

}  // namespace sluice
