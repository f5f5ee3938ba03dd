#include "text/matching/matcher.hpp"
#include "text/unicode/unicode.hpp"

#include <array>
#include <cstdint>

namespace sluice::text {

const std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

/// Differences between the published patterns. All have the form
///   contraction | prefix? letters+ | numbers | ' '? other+ [line break]* | blanks
struct Rules {
  std::string_view pattern;
  bool any_case = true;  ///< whether contractions match in upper case too
  /// Whether letters may follow any character except line breaks, letters and numbers; otherwise only a
  /// blank.
  bool any_prefix = true;
  std::size_t most_numbers = 1;  ///< most numbers in a match; 0: any number, and a blank before them
  /// Whether line breaks belong to other characters before them; blanks end after their last line break.
  bool takes_line_breaks = true;
  std::uint8_t letters = kLetter;
};

constexpr std::array kPublished = {
    // GPT-2, and OLMoE's GPT-NeoX
    Rules{.pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
          .any_case = false,
          .any_prefix = false,
          .most_numbers = 0,
          .takes_line_breaks = false},
    // Llama 3
    Rules{.pattern =
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
              R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
          .most_numbers = 3},
    // Qwen2 and Qwen3
    Rules{.pattern =
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
              R"(\s*[\r\n]+|\s+(?!\S)|\s+)"},
    // Qwen3.5, which counts marks as letters
    Rules{.pattern =
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N})"
              R"(]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
          .letters = kLetter | kMark},
};

/// Scan of `text` from `at` on, by one set of rules.
class Scan {
 public:
  Scan(const Rules& rules, std::string_view text, std::size_t at) : rules_(rules), text_(text), at_(at) {}

  /// End of the match at `at`. There always is one: every character is a letter, a number, a blank or
  /// another.
  [[nodiscard]] std::size_t end() const {
    const Character first = character_at(text_, at_);
    if (first.code == '\'')
      if (const std::size_t length = contraction_bytes()) return at_ + length;
    if (const std::size_t end = letters_end(first)) return end;
    if (const std::size_t end = numbers_end(first)) return end;
    if (const std::size_t end = others_end(first)) return end;
    return blanks_end();
  }

 private:
  [[nodiscard]] static bool is_line_break(char32_t code) { return code == '\n' || code == '\r'; }
  [[nodiscard]] bool is_letter(char32_t code) const { return has(code, rules_.letters); }
  [[nodiscard]] bool is_other(char32_t code) const {
    return !has(code, static_cast<std::uint8_t>(rules_.letters | kNumber | kSpace));
  }

  template <class Belongs>
  [[nodiscard]] std::size_t run_end(std::size_t at, const Belongs& belongs) const {
    while (at < text_.size()) {
      const Character character = character_at(text_, at);
      if (!belongs(character.code)) break;
      at += character.bytes;
    }
    return at;
  }

  [[nodiscard]] std::size_t contraction_bytes() const {
    const auto letter = [&](std::size_t i) {
      const char byte = at_ + i < text_.size() ? text_[at_ + i] : '\0';
      return rules_.any_case && 'A' <= byte && byte <= 'Z' ? static_cast<char>(byte | 0x20) : byte;
    };
    const char first = letter(1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if ((first == 'r' || first == 'v') && letter(2) == 'e') return 3;
    if (first == 'l' && letter(2) == 'l') return 3;
    // The long s is another case of s.
    return rules_.any_case && text_.substr(at_ + 1).starts_with("\u017f") ? 3 : 0;
  }

  [[nodiscard]] std::size_t letters_end(Character first) const {
    const auto belongs = [&](char32_t code) { return is_letter(code); };
    const bool is_prefix = rules_.any_prefix
                               ? !has(first.code, kLetter | kNumber) && !is_line_break(first.code)
                               : first.code == ' ';
    if (is_prefix) {
      const std::size_t begin = at_ + first.bytes;
      if (const std::size_t end = run_end(begin, belongs); end > begin) return end;
    }
    return is_letter(first.code) ? run_end(at_ + first.bytes, belongs) : 0;
  }

  [[nodiscard]] std::size_t numbers_end(Character first) const {
    std::size_t left = rules_.most_numbers;
    const auto any = [](char32_t code) { return has(code, kNumber); };
    if (left == 0 && first.code == ' ') {
      const std::size_t end = run_end(at_ + 1, any);
      return end > at_ + 1 ? end : 0;
    }
    if (!any(first.code)) return 0;
    if (left == 0) return run_end(at_, any);
    return run_end(at_, [&](char32_t code) { return any(code) && left-- > 0; });
  }

  [[nodiscard]] std::size_t others_end(Character first) const {
    const std::size_t begin = at_ + (first.code == ' ' ? 1 : 0);
    const std::size_t end = run_end(begin, [&](char32_t code) { return is_other(code); });
    if (end == begin) return 0;
    return rules_.takes_line_breaks ? run_end(end, is_line_break) : end;
  }

  /// End of blanks: \s*[\r\n]+ if line breaks count, else \s+(?!\S), else \s+
  [[nodiscard]] std::size_t blanks_end() const {
    std::size_t after_line_break = 0;
    std::size_t last = at_;
    std::size_t end = at_;
    while (end < text_.size()) {
      const Character character = character_at(text_, end);
      if (!has(character.code, kSpace)) break;
      last = end;
      end += character.bytes;
      if (is_line_break(character.code)) after_line_break = end;
    }
    if (rules_.takes_line_breaks && after_line_break > 0) return after_line_break;
    return end == text_.size() || last == at_ ? end : last;
  }

  const Rules& rules_;
  std::string_view text_;
  std::size_t at_;
};

class PublishedMatcher : public Matcher {
 public:
  explicit PublishedMatcher(const Rules& rules) : rules_(rules) {}

  [[nodiscard]] std::pair<std::size_t, std::size_t> find(std::string_view text,
                                                         std::size_t from) const override {
    if (from == text.size()) return {from, from};
    return {from, Scan(rules_, text, from).end()};
  }
  [[nodiscard]] Cuts cuts() const override {
    return rules_.takes_line_breaks ? Cuts::kLineBreaks : Cuts::kSingleLineBreaks;
  }

 private:
  const Rules& rules_;
};

}  // namespace

std::unique_ptr<Matcher> published_matcher(std::string_view pattern) {
  for (const Rules& rules : kPublished)
    if (rules.pattern == pattern) return std::make_unique<PublishedMatcher>(rules);
  return nullptr;
}

}  // namespace sluice::text
