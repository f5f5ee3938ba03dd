#include "answer_texts.hpp"

#include "process/console.hpp"

#include <fmt/ranges.h>

#include <string_view>
#include <utility>

namespace sluice {
namespace {

using nlohmann::json;

std::string_view name_of(Ending ending) {
  switch (ending) {
    case Ending::kEndToken:
      return "end_token";
    case Ending::kMaxTokens:
      return "max_tokens";
    case Ending::kPositions:
      return "positions";
    case Ending::kStopped:
      break;
  }
  return "stop";
}

}  // namespace

AnswerTexts::AnswerTexts(const JobContext& context, std::shared_ptr<const text::Tokenizer> tokenizer,
                         const std::vector<Prompt>& prompts)
    : context_(context),
      tokenizer_(std::move(tokenizer)),
      prompts_(prompts),
      stops_(context.config().generate.stop) {}

std::string AnswerTexts::text_of(const Generation& answer) const {
  return answer_text(*tokenizer_, stops_, answer.tokens);
}

json AnswerTexts::json_of(std::size_t prompt, const Generation& answer) const {
  json out{{"id", json::parse(prompts_[prompt].id)},
           {"prompt_tokens", prompts_[prompt].tokens.size()},
           {"tokens", answer.tokens},
           {"ending", name_of(answer.ending)}};
  if (tokenizer_ != nullptr) out["text"] = text_of(answer);
  return out;
}

/// Whether text is printed as it comes, which only a command's single answer is.
bool AnswerTexts::streams() const {
  return context_.is_root() && prompts_.size() == 1 && tokenizer_ != nullptr && context_.request != nullptr &&
         context_.request->form == AnswerForm::kText;
}

bool AnswerTexts::take_token(std::size_t request, std::int64_t token) {
  if (stops_.empty() && !streams()) return false;
  AnswerText& text = texts_.try_emplace(request, *tokenizer_, stops_).first->second;
  const std::string more = text.add(token);
  if (streams()) console::result(more);
  if (!text.has_stopped()) return false;
  texts_.erase(request);
  return true;
}

void AnswerTexts::print_in_order(std::size_t prompt, const Generation& answer) {
  waiting_.emplace(prompt, answer);
  for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_; ++next_) {
    print(first->first, first->second);
    first = waiting_.erase(first);
  }
}

void AnswerTexts::print(std::size_t prompt, const Generation& answer) {
  if (context_.request->form == AnswerForm::kJson) {
    console::result(json_of(prompt, answer).dump() + "\n");
  } else if (context_.request->form == AnswerForm::kTokens || tokenizer_ == nullptr) {
    console::result(fmt::format("{}\n", fmt::join(answer.tokens, ",")));
  } else if (streams()) {
    const auto rest = texts_.find(answer.request);
    console::result((rest == texts_.end() ? "" : rest->second.finish()) + "\n");
  } else {
    console::result(fmt::format("--- {}\n{}\n", prompts_[prompt].id, text_of(answer)));
  }
}

}  // namespace sluice
