#include "base/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

/// The least and greatest second byte that may follow a lead byte: narrower where a sequence would be
/// overlong, a surrogate or above U+10FFFF.
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
    const std::size_t length = utf8_length(text);
    const bool control = length == 1 && (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7f);
    if (length == 0 || control) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
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

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace sluice
