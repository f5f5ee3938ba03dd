#include "corpus/list_text.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "corpus/json_row.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace sluice::corpus {
namespace {

using Json = JsonRow::Json;

constexpr std::string_view kJsonBlanks = " \t\r\n";

/// Words of JSON and of Python's spelling of values, outside of strings.
constexpr std::array<std::string_view, 17> kWords = {"true", "false", "null",   "True",  "False",    "None",
                                                     "NaN",  "nan",   "inf",    "array", "Infinity", "dtype",
                                                     "u",    "b",     "object", "date",  "datetime"};

/// Objects of a list as JSON or Python spells it, whole or cut short, of each the texts by their keys.
class ListSketch {
 public:
  explicit ListSketch(std::string_view text) : text_(text) {}

  /// The list of objects; nothing if the text has anything but such a list.
  [[nodiscard]] std::optional<Json> draw() {
    for (; at_ < text_.size() && !is_whole_; ++at_)
      if (!take()) return std::nullopt;
    if (text_.find_first_not_of(kJsonBlanks, at_) != std::string_view::npos) return std::nullopt;
    is_cut_ = list_.empty() && !object_.empty();
    if (is_cut_) list_.push_back(object_);
    return list_;
  }
  /// Whether the list that has been drawn is one object without its end.
  [[nodiscard]] bool is_cut() const { return is_cut_; }

 private:
  /// Takes what begins at the present place, and moves to its last character; false for words that no list
  /// has.
  bool take() {
    const char character = text_[at_];
    if (character == '"' || character == '\'')
      take_string(character);
    else if (character == '[' || character == '{' || character == '(')
      ++depth_;
    else if (character == ']' || character == '}' || character == ')')
      close();
    else if (character == ':' || character == ',')
      is_value_ = character == ':';
    else if (character != '=' && kJsonBlanks.find(character) == std::string_view::npos)
      return take_word();
    return true;
  }

  void close() {
    --depth_;
    is_whole_ = depth_ == 0;
    if (depth_ == 1) list_.push_back(std::exchange(object_, Json::object()));
    is_value_ = false;
  }

  void take_string(char quote) {
    const std::size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != quote) at_ += text_[at_] == '\\' ? 2 : 1;
    if (depth_ != kDepthOfKeys) return;
    std::string string(text_.substr(begin, at_ - begin));
    if (is_value_)
      object_[key_] = std::move(string);
    else if (at_ < text_.size())
      object_[key_ = std::move(string)] = nullptr;
  }

  bool take_word() {
    const std::size_t begin = at_;
    const auto is_in_word = [](char character) {
      return std::isalnum(static_cast<unsigned char>(character)) != 0 ||
             std::string_view("+-._").find(character) != std::string_view::npos;
    };
    while (at_ < text_.size() && is_in_word(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    const bool is_cut = at_ == text_.size();
    --at_;
    if (word.empty()) return false;
    if (std::isalpha(static_cast<unsigned char>(word.front())) == 0) return true;  // a number, or "..."
    return std::ranges::any_of(
        kWords, [&](std::string_view known) { return is_cut ? known.starts_with(word) : known == word; });
  }

  static constexpr int kDepthOfKeys = 2;  ///< brackets around the keys of a list's objects

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool is_whole_ = false;
  bool is_cut_ = false;
  bool is_value_ = false;  ///< whether a string at the present place is the value of key_
  std::string key_;
  Json object_ = Json::object();
  Json list_ = Json::array();
};

}  // namespace

std::optional<Json> list_in_text(const std::string& text, IsWantedList is_wanted, std::string_view place) {
  const std::size_t begin = text.find_first_not_of(kJsonBlanks);
  if (begin == std::string::npos || text[begin] != '[') return std::nullopt;
  const auto is_wanted_list = [&](const std::optional<Json>& list, bool is_cut) {
    return list && list->is_array() && !list->empty() && is_wanted(*list, is_cut);
  };
  if (std::optional<Json> list = json_in(text))
    return is_wanted_list(list, /*is_cut=*/false) ? std::move(list) : std::nullopt;
  ListSketch sketch(text);
  const std::optional<Json> list = sketch.draw();
  if (is_wanted_list(list, sketch.is_cut()))
    fail(
        {ExitCode::kBadData, "corpus.row"},
        "{} is the text of a list, but cut short or in another spelling than JSON's: '{}'; expected the list, "
        "or its JSON as json.dumps writes it",
        place, printable(text));
  return std::nullopt;
}

}  // namespace sluice::corpus
