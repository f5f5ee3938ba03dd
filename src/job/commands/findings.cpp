#include "job/commands/findings.hpp"

#include "config/schema.hpp"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <system_error>

namespace sluice {
namespace {

bool is_file(const std::string& text) {
  std::error_code error;
  return !text.empty() && std::filesystem::exists(text, error);
}

}  // namespace

FailurePlace place_of(std::string_view text) {
  static const std::regex line_and_column("(.+):[0-9]+:[0-9]+"), dotted("[a-z_]+([.][a-z_]+)+");
  FailurePlace place;
  text = text.substr(0, text.find('\n'));
  for (std::size_t end = 0; (end = text.find(": ")) != std::string_view::npos; text.remove_prefix(end + 2)) {
    const std::string part(text.substr(0, end));
    std::smatch in_file;
    const bool follows_line = !place.file.empty();
    if (std::regex_match(part, in_file, line_and_column))
      place.file = in_file[1];
    else if (place.key.empty() &&
             (find_key(part) != nullptr || (follows_line && std::regex_match(part, dotted))))
      place.key = part;
    else if (place.file.empty() && is_file(part))
      place.file = part;
    else
      break;
  }
  const std::string word(text.substr(0, text.find_first_of(" :,")));
  if (place.file.empty() && word.find('/') != std::string::npos && is_file(word)) place.file = word;
  return place;
}

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
