#include "generate_report.hpp"

#include "generation.hpp"
#include "job/console.hpp"

#include <fmt/ranges.h>

#include <utility>

namespace sluice {
GenerateReport::GenerateReport(JobContext& context, std::int64_t positions) : context_(context) {
  requests_ = share_requests(context.comm, [&] {
    const GenerateRequest* request = context.request;
    prompts_ = request != nullptr ? request->prompts : read_prompts(context.config().generate.prompts);
    require_answerable(prompts_, context.blueprint.model.config, positions);
    if (request == nullptr) file_.emplace(context, prompts_);
    return open_requests();
  });
  if (context.is_root() && requests_.size() < prompts_.size())
    console::line("answered  {} of {} prompts by an earlier run", prompts_.size() - requests_.size(), prompts_.size());
}

std::vector<GenerationRequest> GenerateReport::open_requests() const {
  std::vector<GenerationRequest> open;
  for (std::size_t i = 0; i < prompts_.size(); ++i)
    if (!file_ || !file_->is_answered(i)) open.push_back({static_cast<std::int64_t>(i), prompts_[i].tokens});
  return open;
}

bool GenerateReport::take_token(std::size_t, std::int64_t) {
  if (first_token_seconds_ == 0) first_token_seconds_ = watch_.seconds();
  return false;
}

void GenerateReport::take_answer(const Generation& answer) {
  const auto prompt = static_cast<std::size_t>(requests_[answer.request].number);
  ++answers_;
  tokens_ += std::ssize(answer.tokens);
  if (file_)
    file_->append(prompt, to_json(prompts_[prompt], answer));
  else
    print_in_order(prompt, answer);
}

void GenerateReport::print_in_order(std::size_t prompt, const Generation& answer) {
  waiting_.emplace(prompt, answer);
  for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_; ++next_) {
    print(first->first, first->second);
    first = waiting_.erase(first);
  }
}

void GenerateReport::print(std::size_t prompt, const Generation& answer) const {
  if (context_.request->form == AnswerForm::kJson)
    console::result(to_json(prompts_[prompt], answer).dump() + "\n");
  else
    console::result(fmt::format("{}\n", fmt::join(answer.tokens, ",")));
}

void GenerateReport::finish() {
  if (!context_.is_root() || answers_ == 0) return;
  console::line("answered {} prompt{} with {} tokens: {:.1f} tokens/s, the first after {:.3f} s", answers_,
                answers_ == 1 ? "" : "s", tokens_, static_cast<double>(tokens_) / watch_.seconds(),
                first_token_seconds_);
}

}  // namespace sluice
