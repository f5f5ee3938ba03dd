#include "answer_file.hpp"

#include "base/digest.hpp"
#include "base/error.hpp"
#include "config/key_aliases.hpp"
#include "config/schema.hpp"
#include "io/file.hpp"
#include "io/path.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <filesystem>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kMostBytes = std::int64_t{16} << 30;

/// Text of the keys and values that change answers, under the names that the digests in earlier answer files
/// used. Formats of frozen weights with the same numbers count as equal.
std::string settings_of(const JobConfig& config) {
  std::string text;
  for (const ConfigEntry& entry : canonical_entries(config))
    if (rules_of(entry.key).changes_answers) text += earlier_name(entry.key) + "=" + entry.value + "\n";
  const FrozenFormat format = config.model.frozen_format;
  if (is_quantised_by_load(format)) text += "model.frozen_format=" + name_of(format) + "\n";
  return text;
}

}  // namespace

AnswerFile::AnswerFile(const JobContext& context, const std::vector<Prompt>& prompts)
    : prompts_(prompts),
      path_(context.directory.new_file(context.config().generate.output)),
      settings_(settings_of(context.config())) {
  read_earlier();
  file_.open(path_, std::ios::app);
  if (!file_)
    fail(write_failure(errno), "generate.output: cannot write {}: {}", path_.string(), errno_text(errno));
}

std::string AnswerFile::digest_of_prompt(std::size_t prompt) const {
  return digest_of(fmt::format("{}{}\n{}", settings_, prompt, fmt::join(prompts_[prompt].tokens, ","))).hex();
}

void AnswerFile::read_earlier() {
  if (!path_exists(path_)) return;
  const std::string text = read_text_file(path_, kMostBytes);
  std::size_t whole = 0;  // bytes of complete lines
  for (std::size_t end = 0; (end = text.find('\n', whole)) != std::string::npos; whole = end + 1) {
    const json line = json::parse(text.substr(whole, end - whole), nullptr, /*allow_exceptions=*/false);
    const json number = line.is_object() ? line.value("prompt", json()) : json();
    const bool is_ours = number.is_number_unsigned() && number.get<std::size_t>() < prompts_.size() &&
                         line.value("job", "") == digest_of_prompt(number.get<std::size_t>());
    if (!is_ours)
      fail({ExitCode::kBadConfig, "job.output_taken"},
           "generate.output: {} holds answers to other prompts, or of another model or other settings; give "
           "this job another job.output, or set job.overwrite = true to replace them",
           path_.string());
    answered_.insert(number.get<std::size_t>());
  }
  if (whole < text.size()) fs::resize_file(path_, whole);
}

void AnswerFile::append(std::size_t prompt, json answer) {
  answer["prompt"] = prompt;
  answer["job"] = digest_of_prompt(prompt);
  file_ << answer.dump(-1, ' ', false, json::error_handler_t::replace) << '\n' << std::flush;
  if (!file_)
    fail(write_failure(errno), "generate.output: cannot write {}: {}", path_.string(), errno_text(errno));
}

}  // namespace sluice
