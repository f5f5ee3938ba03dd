#include "generate_report.hpp"

#include "base/digest.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "config/key_aliases.hpp"
#include "config/schema.hpp"
#include "generation.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "process/console.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <utility>

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

namespace {

/// Processor seconds of this process and all its threads: on a machine that others use they say more than the
/// time that has passed.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

void GenerateReport::begin() {
  watch_.restart();
  processor_begin_ = processor_seconds();
}

GenerateReport::GenerateReport(JobContext& context) : context_(context) {
  JobPrompts read = prompts_of(context);
  prompts_ = std::move(read.prompts);
  requests_ = share_requests(context.comm, [&] {
    if (context.request == nullptr) file_.emplace(context, prompts_);
    return open_requests();
  });
  texts_.emplace(context, std::move(read.tokenizer), prompts_);
  if (context.is_root() && requests_.size() < prompts_.size())
    console::line("answered  {} of {} prompts by an earlier run", prompts_.size() - requests_.size(),
                  prompts_.size());
}

std::vector<GenerationRequest> GenerateReport::open_requests() const {
  std::vector<GenerationRequest> open;
  for (std::size_t i = 0; i < prompts_.size(); ++i)
    if (!file_ || !file_->is_answered(i)) open.push_back({static_cast<std::int64_t>(i), prompts_[i].tokens});
  return open;
}

bool GenerateReport::take_token(std::size_t request, std::int64_t token) {
  if (first_token_seconds_ == 0) {
    first_token_seconds_ = watch_.seconds();
    first_token_processor_ = processor_seconds() - processor_begin_;
  }
  return texts_->take_token(request, token);
}

void GenerateReport::take_answer(const Generation& answer) {
  const auto prompt = static_cast<std::size_t>(requests_[answer.request].number);
  ++answers_;
  tokens_ += std::ssize(answer.tokens);
  if (!file_) return texts_->print_in_order(prompt, answer);
  file_->append(prompt, texts_->json_of(prompt, answer));
  const double seconds = watch_.seconds();
  const auto left = static_cast<double>(std::ssize(requests_) - answers_);
  context_.directory.set_progress({.unit = "prompt",
                                   .done = std::ssize(prompts_) - std::ssize(requests_) + answers_,
                                   .total = std::ssize(prompts_),
                                   .tokens_per_second = static_cast<double>(tokens_) / seconds,
                                   .seconds_left = seconds / static_cast<double>(answers_) * left});
}

bool GenerateReport::is_done_already() {
  if (context_.request != nullptr || !requests_.empty()) return false;
  if (!context_.is_root()) return true;
  const std::int64_t prompts = std::ssize(prompts_);
  context_.directory.set_done_before({.unit = "prompt", .done = prompts, .total = prompts});
  console::line("done already: {} answers all prompts; job.overwrite = true answers them anew",
                context_.directory.file(context_.config().generate.output).string());
  return true;
}

void GenerateReport::finish(const PhaseSeconds& phases) {
  if (!context_.is_root() || answers_ == 0) return;
  const double seconds = watch_.seconds();
  const double disk = phases[static_cast<std::size_t>(Phase::kDisk)];
  console::line(
      "answered {} with {}: {:.{}f} tokens/s, the first after {:.3f} s{}", counted(answers_, "prompt"),
      counted(tokens_, "token"), static_cast<double>(tokens_) / seconds,
      static_cast<double>(tokens_) < seconds ? 4 : 1, first_token_seconds_,
      disk > 0 ? fmt::format("; {:.0f} % of the time rank 0 waited for the disk", 100 * disk / seconds)
               : std::string());
  log::debug("processor {:.4f} s of rank 0, {:.4f} of them to the first token",
             processor_seconds() - processor_begin_, first_token_processor_);
}

}  // namespace sluice
