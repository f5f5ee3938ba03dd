// Cuts texts at places across which no published pattern and no token looks, see Cuts in matcher.hpp.
#include "base/text.hpp"
#include "text/tokenizer.hpp"
#include "text/unicode/unicode.hpp"

#include <algorithm>

namespace sluice::text {
namespace {

constexpr char32_t kNoText = 0xfffd;  // character as which bytes that are not UTF-8 are read

/// Character at `at`, in bytes that need not be UTF-8.
char32_t read_at(std::string_view text, std::size_t at) {
  const std::string_view bytes = text.substr(at, 4);
  return valid_utf8_prefix(bytes) > 0 ? character_at(bytes, 0).code : kNoText;
}

/// Character that ends before `end`, which must not be 0.
char32_t read_before(std::string_view text, std::size_t end) {
  for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(4, end); ++bytes) {
    const std::string_view character = text.substr(end - bytes, bytes);
    if ((static_cast<unsigned char>(character[0]) & 0xc0) == 0x80) continue;
    return valid_utf8_prefix(character) == bytes && character_at(character, 0).bytes == bytes
               ? character_at(character, 0).code
               : kNoText;
  }
  return kNoText;
}

}  // namespace

/// Whether a text may be cut behind the '\n' at `at`, which has text on both sides.
bool Tokenizer::may_cut_behind_line_break(std::string_view text, std::size_t at) const {
  const char32_t behind = read_at(text, at + 1);
  if (!has(behind, kLetter | kNumber)) return false;
  if (!pre_tokenizer_.has_patterns()) return bpe_.may_cut_between('\n', behind);
  std::size_t begin = at;
  while (pre_tokenizer_.cuts() == Cuts::kLineBreaks && begin > 0 &&
         (text[begin - 1] == '\n' || text[begin - 1] == '\r'))
    --begin;
  return begin > 0 && !has(read_before(text, begin), kSpace);
}

/// Whether a text may be cut before the ' ' at `at`, which has text on both sides.
bool Tokenizer::may_cut_before_blank(std::string_view text, std::size_t at) const {
  return pre_tokenizer_.cuts() != Cuts::kNowhere && has(read_before(text, at), kLetter) &&
         has(read_at(text, at + 1), kLetter);
}

std::size_t Tokenizer::last_cut(std::string_view text) const {
  if (!may_cut_ || text.size() < 8) return 0;
  // The last character of the text may be incomplete.
  for (std::size_t at = text.size() - 5; at > 0; --at) {
    if (text[at] == '\n' && may_cut_behind_line_break(text, at)) return at + 1;
    if (text[at] == ' ' && may_cut_before_blank(text, at)) return at;
  }
  return 0;
}

}  // namespace sluice::text
