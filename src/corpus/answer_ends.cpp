#include "corpus/answer_ends.hpp"

#include <algorithm>

namespace sluice::corpus {
namespace {

constexpr std::string_view kWhitespace = " \t\r\n\f\v";

bool ends_with_any(std::string_view text, const std::vector<std::string>& endings) {
  return std::ranges::any_of(endings, [&](const std::string& ending) { return text.ends_with(ending); });
}

std::string_view without_trailing_whitespace(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kWhitespace) + 1);
}

}  // namespace

bool is_blank(std::string_view text) { return without_trailing_whitespace(text).empty(); }

AnswerEnds::AnswerEnds(const text::Tokenizer& tokenizer, std::span<const text::TokenId> ids) {
  for (text::TokenId id = 0; id < tokenizer.id_count(); ++id) {
    const bool is_end = std::ranges::find(ids, id) != ids.end(), is_special = tokenizer.is_special(id);
    if (!is_end && !is_special) continue;
    std::string text = tokenizer.decode(std::span(&id, 1), text::Specials::kKeep);
    if (text.empty()) continue;
    if (is_end && is_special) special_ends_.push_back(text);
    (is_end ? ends_ : others_).push_back(std::move(text));
  }
}

bool AnswerEnds::is_ended(std::string_view text) const {
  if (ends_with_any(text, ends_)) return true;
  text = without_trailing_whitespace(text);
  if (ends_with_any(text, ends_)) return true;
  for (auto other = others_.begin(); other != others_.end();) {
    other = std::ranges::find_if(others_, [&](const std::string& token) { return text.ends_with(token); });
    if (other == others_.end()) return false;
    text = without_trailing_whitespace(text.substr(0, text.size() - other->size()));
    if (ends_with_any(text, special_ends_)) return true;
  }
  return false;
}

std::size_t AnswerEnds::leading_bytes(std::string_view text) const {
  std::size_t bytes = 0;
  const std::size_t begin = std::min(text.find_first_not_of(kWhitespace), text.size());
  for (const std::size_t at : {std::size_t{0}, begin})
    for (const std::string& end : ends_)
      if (text.substr(at).starts_with(end)) bytes = std::max(bytes, at + end.size());
  return bytes;
}

}  // namespace sluice::corpus
