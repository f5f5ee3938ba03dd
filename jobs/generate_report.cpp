#include "generate_report.hpp"
#include "base/text.hpp"

#include "base/log.hpp"
#include "generation.hpp"
#include "process/console.hpp"

#include <ctime>
#include <utility>

namespace sluice {
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
