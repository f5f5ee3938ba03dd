#include "base/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

namespace sluice {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row.back();
}

/// Least and greatest second byte after a lead byte of UTF-8: narrower where a sequence would be overlong, a
/// surrogate or above U+10FFFF.
std::pair<unsigned char, unsigned char> second_byte_range(unsigned char lead) {
  switch (lead) {
    case 0xe0:
      return {0xa0, 0xbf};
    case 0xed:
      return {0x80, 0x9f};
    case 0xf0:
      return {0x90, 0xbf};
    case 0xf4:
      return {0x80, 0x8f};
    default:
      return {0x80, 0xbf};
  }
}

/// Bytes of the well-formed UTF-8 sequence at the front of `text`, or 0.
std::size_t utf8_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xc2 ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  if (length < 2 || length > text.size()) return length == 1 ? 1 : 0;
  const auto [least, greatest] = second_byte_range(lead);
  const auto second = static_cast<unsigned char>(text[1]);
  if (second < least || second > greatest) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  return length;
}

/// Whether a character in UTF-8 controls a terminal instead of being shown: C0 and C1 controls, and
/// characters that end lines or change the direction of writing (U+200E, U+200F, U+2028 to U+202E, U+2066 to
/// U+2069).
bool is_control(std::string_view character) {
  const auto last = static_cast<unsigned char>(character.back());
  if (character.size() == 1) return last < 0x20 || last == 0x7f;
  if (character.size() == 2) return character[0] == '\xc2' && last < 0xa0;
  if (character.starts_with("\xe2\x80"))
    return last == 0x8e || last == 0x8f || (0xa8 <= last && last <= 0xae);
  return character.starts_with("\xe2\x81") && 0xa6 <= last && last <= 0xa9;
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  std::size_t best_distance = word.size() / 3 + 2;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t valid = 0;
  while (valid < text.size()) {
    const std::size_t length = utf8_length(text.substr(valid));
    if (length == 0) break;
    valid += length;
  }
  return valid;
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= limit) return out + "…";
    const std::string_view character = text.substr(0, std::max<std::size_t>(1, utf8_length(text)));
    if (utf8_length(text) > 0 && !is_control(character))
      out += character;
    else
      for (const char byte : character) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    text.remove_prefix(character.size());
  }
  return out;
}

std::string join_some(std::span<const std::string> items, std::size_t most) {
  if (items.size() <= most) return fmt::format("{}", fmt::join(items, ", "));
  return fmt::format("{} and {} more", fmt::join(items.first(most), ", "), items.size() - most);
}

std::string lines_of_some(std::span<const std::string> items, std::size_t most) {
  std::string out;
  for (const std::string& item : items.first(std::min(most, items.size()))) out += "\n    " + item;
  if (items.size() > most) out += fmt::format("\n    and {} more", items.size() - most);
  return out;
}

std::string counted(std::int64_t count, std::string_view noun) {
  if (count == 1) return fmt::format("1 {}", noun);
  constexpr std::string_view kVowels = "aeiou";
  const bool has_ies =
      noun.ends_with('y') && noun.size() > 1 && kVowels.find(noun[noun.size() - 2]) == noun.npos;
  if (has_ies) return fmt::format("{} {}ies", count, noun.substr(0, noun.size() - 1));
  const bool hisses = noun.ends_with('s') || noun.ends_with('x') || noun.ends_with("ch");
  return fmt::format("{} {}{}", count, noun, hisses ? "es" : "s");
}

std::string_view is_or_are(std::int64_t count) { return count == 1 ? "is" : "are"; }

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (text.size() > width) {
    std::size_t end = text.rfind(' ', width);
    if (end == std::string_view::npos) end = std::min(text.find(' '), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!text.empty() || lines.empty()) lines.emplace_back(text);
  return lines;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.starts_with('-') || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> leading_number(std::string_view text) {
  return whole_number(text.substr(0, text.find_first_not_of("0123456789")));
}

std::optional<std::int64_t> number_behind(std::string_view text, std::string_view mark) {
  const std::size_t place = text.find(mark);
  return place == text.npos ? std::nullopt : leading_number(text.substr(place + mark.size()));
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace sluice
