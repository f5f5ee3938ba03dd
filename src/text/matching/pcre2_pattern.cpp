#include "text/matching/pcre2_pattern.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "text/unicode/unicode.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace sluice::text {
namespace {

using Ranges = std::vector<std::pair<char32_t, char32_t>>;

Ranges white_space() {
  Ranges ranges;
  for (char32_t code = 0; code < 0x3001; ++code)
    if (has(code, kSpace)) {
      if (!ranges.empty() && ranges.back().second + 1 == code)
        ranges.back().second = code;
      else
        ranges.emplace_back(code, code);
    }
  return ranges;
}

/// Ranges of the characters of the script Han (Unicode 16.0), the only script that published patterns name.
Ranges han_script() {
  return {{0x2e80, 0x2e99},   {0x2e9b, 0x2ef3},   {0x2f00, 0x2fd5},   {0x3005, 0x3005},   {0x3007, 0x3007},
          {0x3021, 0x3029},   {0x3038, 0x303b},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfa6d},
          {0xfa70, 0xfad9},   {0x16fe2, 0x16fe3}, {0x16ff0, 0x16ff1}, {0x20000, 0x2a6df}, {0x2a700, 0x2b739},
          {0x2b740, 0x2b81d}, {0x2b820, 0x2cea1}, {0x2ceb0, 0x2ebe0}, {0x2ebf0, 0x2ee5d}, {0x2f800, 0x2fa1d},
          {0x30000, 0x3134a}, {0x31350, 0x323af}};
}

/// Returns the ranges of all code points outside `ranges`.
Ranges complement(const Ranges& ranges) {
  Ranges out;
  char32_t next = 0;
  for (const auto& [first, last] : ranges) {
    if (first > next) out.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= 0x10ffff) out.emplace_back(next, 0x10ffff);
  return out;
}

std::string spelled(const Ranges& ranges) {
  std::string out;
  for (auto [first, last] : ranges) {
    // pcre2 takes no surrogates, and well-formed text has none.
    if (first <= 0xd800 && last >= 0xdfff) {
      if (first < 0xd800) out += fmt::format("\\x{{{:x}}}-\\x{{d7ff}}", static_cast<std::uint32_t>(first));
      first = 0xe000;
    }
    if (first <= last && !(0xd800 <= first && first <= 0xdfff))
      out += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<std::uint32_t>(first),
                         static_cast<std::uint32_t>(last));
  }
  return out;
}

class Translation {
 public:
  Translation(std::string_view pattern, const std::string& name) : pattern_(pattern), name_(name) {}

  [[nodiscard]] std::string run() {
    while (at_ < pattern_.size()) element();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail({ExitCode::kBadData, "text.tokenizer"},
         "{}: the pattern '{}' has {} at byte {}, which is not supported", name_, printable(pattern_), what,
         at_);
  }
  [[nodiscard]] bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  [[nodiscard]] char peek() const {
    if (at_ == pattern_.size()) refuse("an unexpected end");
    return pattern_[at_];
  }
  void copy(std::size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }

  void element() {
    const char c = peek();
    if (c == '\\') return escape(false);
    if (c == '[') return bracket();
    if (c == '(') return group();
    if (c == '{') return count();
    if (c == '^' || c == '$' || c == '.') refuse(fmt::format("'{}'", c));
    if (c == '?' || c == '*' || c == '+') return repetition();
    copy(1);
  }

  void group() {
    for (const std::string_view opening : {"(?:", "(?i:", "(?=", "(?!"})
      if (next_is(opening)) return copy(opening.size());
    if (next_is("(?") || next_is("(*"))
      refuse(fmt::format("a group that begins with '{}'", pattern_.substr(at_, 4)));
    out_ += "(?:";  // no capture, since nobody uses what a group matched
    ++at_;
  }

  void repetition() {
    copy(1);
    if (at_ < pattern_.size() && (pattern_[at_] == '?' || pattern_[at_] == '+')) copy(1);
  }

  /// Reads the end of a repetition: {n}, {n,} or {n,m}.
  void count() {
    const std::size_t end = pattern_.find('}', at_);
    const std::string_view inside =
        end == std::string_view::npos ? "" : pattern_.substr(at_ + 1, end - at_ - 1);
    const bool is_count = !inside.empty() && '0' <= inside[0] && inside[0] <= '9' &&
                          inside.find_first_not_of("0123456789,") == std::string_view::npos &&
                          std::ranges::count(inside, ',') <= 1;
    if (!is_count) refuse("a '{' that begins no count of repetitions");
    copy(inside.size() + 2);
    if (at_ < pattern_.size() && (pattern_[at_] == '+' || pattern_[at_] == '?'))
      refuse("a sign after a count");
  }

  void bracket() {
    const std::size_t begin = out_.size();
    copy(1);
    const bool is_complement = next_is("^");
    if (is_complement) copy(1);
    if (next_is("]")) refuse("an empty class");
    while (peek() != ']') {
      if (peek() == '\\')
        escape(true);
      else if (next_is("&&[") && !is_complement)
        return intersection(begin);
      else if (next_is("[") || next_is("&&"))
        refuse("a class within a class");
      else
        copy(1);
    }
    copy(1);
  }

  /// Completes [A&&[B]], where `begin` is the place of [A in the output: pcre2 looks ahead for [B], then
  /// takes [A].
  void intersection(std::size_t begin) {
    const std::string first = out_.substr(begin) + "]";
    out_.resize(begin);
    out_ += "(?:(?=";
    at_ += 2;
    bracket();
    if (peek() != ']') refuse("more behind a class within a class");
    ++at_;
    out_ += ")" + first + ")";
  }

  void put_class(const Ranges& ranges, bool is_complement, bool in_bracket) {
    const std::string text = spelled(is_complement ? complement(ranges) : ranges);
    out_ += in_bracket ? text : "[" + text + "]";
  }

  void escape(bool in_bracket) {
    ++at_;
    const char c = peek();
    if (c == 's' || c == 'S' || c == 'd' || c == 'D') {
      ++at_;
      return put_class(c == 's' || c == 'S' ? white_space() : category_ranges("Nd"), c == 'S' || c == 'D',
                       in_bracket);
    }
    if (c == 'p' || c == 'P') return property(c == 'P', in_bracket);
    if (c == 'u') return code_point();
    const bool is_letter = ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9');
    if (is_letter && c != 'r' && c != 'n' && c != 't' && c != 'f') refuse(fmt::format("'\\{}'", c));
    if (static_cast<unsigned char>(c) >= 0x80) refuse("a '\\' before a character that is not ASCII");
    out_ += '\\';
    copy(1);
  }

  /// Reads a property after its sign: \p{L}, \p{Lu}, \p{^L}.
  void property(bool is_complement, bool in_bracket) {
    const std::size_t end = pattern_.find('}', at_);
    if (at_ + 1 >= pattern_.size() || pattern_[at_ + 1] != '{' || end == std::string_view::npos)
      refuse("a property without '{…}'");
    std::string_view property_name = pattern_.substr(at_ + 2, end - at_ - 2);
    if (property_name.starts_with('^')) {
      is_complement = !is_complement;
      property_name.remove_prefix(1);
    }
    const bool is_script = property_name == "Han";
    const Ranges ranges = is_script ? han_script() : category_ranges(property_name);
    if (ranges.empty() || (!is_script && property_name.size() > 2))
      refuse(fmt::format("the property '{}', which is neither a general category nor Han,",
                         printable(property_name)));
    at_ = end + 1;
    put_class(ranges, is_complement, in_bracket);
  }

  /// Reads a code point after its sign: \uHHHH.
  void code_point() {
    const std::string_view digits = pattern_.substr(std::min(at_ + 1, pattern_.size())).substr(0, 4);
    if (digits.size() != 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      refuse("'\\u' without four hexadecimal digits");
    out_ += fmt::format("\\x{{{}}}", digits);
    at_ += 5;
  }

  std::string_view pattern_;
  const std::string& name_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string pcre2_pattern(std::string_view pattern, const std::string& name) {
  return Translation(pattern, name).run();
}

}  // namespace sluice::text
