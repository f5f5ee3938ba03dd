#include "job/commands/findings.hpp"

#include <algorithm>

namespace sluice {

void Findings::examine(const std::function<void()>& part) {
  const Outcome outcome = outcome_of(part);
  if (!outcome.failed() || std::ranges::find(found_, outcome.text, &Outcome::text) != found_.end()) return;
  found_.push_back(outcome);
}

std::string Findings::text(std::string_view title) const {
  if (found_.size() == 1) return found_.front().text_with_id();
  std::string text = fmt::format("{}: {} things are wrong", title, found_.size());
  for (std::size_t i = 0; i < found_.size(); ++i)
    text += fmt::format("\n{}. {} (exit code {})", i + 1, found_[i].text_with_id(),
                        static_cast<int>(found_[i].code));
  return text;
}

}  // namespace sluice
