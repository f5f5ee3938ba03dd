#include "corpus/template_keys.hpp"

#include "corpus/message.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace sluice::corpus {
namespace {

bool is_word_character(char character) {
  return std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '_';
}

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word_character(text[at - 1])) &&
        (end == text.size() || !is_word_character(text[end])))
      return true;
  }
  return false;
}

}  // namespace

bool TemplateKeys::Words::names(const std::string& key) {
  const auto found = std::ranges::find(known, key, &std::pair<std::string, bool>::first);
  if (found != known.end()) return found->second;
  // Templates are given the reasoning under each of its names.
  const bool is_reasoning = std::ranges::find(kReasoningKeys, key) != kReasoningKeys.end();
  const bool is_named =
      is_reasoning
          ? std::ranges::any_of(kReasoningKeys, [&](std::string_view name) { return has_word(text, name); })
          : has_word(text, key);
  constexpr std::size_t kMostKept = 256;
  if (known.size() < kMostKept) known.emplace_back(key, is_named);
  return is_named;
}

std::vector<std::string> TemplateKeys::unread(const Conversation& conversation) {
  std::vector<std::string> keys;
  const bool has_tools = !conversation.tools->is_null();
  Words& words = has_tools && !with_tools_.text.empty() ? with_tools_ : plain_;
  if (has_tools && !words.names("tools")) keys.emplace_back("tools");
  for (const nlohmann::ordered_json& message : *conversation.messages)
    for (const auto& [key, value] : message.items()) {
      if (key == "role" || key == "content" || words.names(key)) continue;
      std::string shown = "messages." + key;
      if (std::ranges::find(keys, shown) == keys.end()) keys.push_back(std::move(shown));
    }
  return keys;
}

}  // namespace sluice::corpus
