#include "text/unicode/unicode.hpp"

#include "base/text.hpp"
#include "text/unicode/unicode_data.hpp"

#include <algorithm>
#include <memory>

namespace sluice::text {
namespace {

constexpr char32_t kCodes = 0x110000;

template <std::size_t n, class Use>
void for_each_run(const std::array<std::uint32_t, n>& runs, int value_bits, const Use& use) {
  for (std::size_t i = 0; i < n; ++i) {
    const char32_t end = i + 1 < n ? runs[i + 1] >> value_bits : kCodes;
    use(runs[i] >> value_bits, end, runs[i] & ((1U << value_bits) - 1));
  }
}

std::uint8_t traits_of_category(std::string_view name) {
  switch (name[0]) {
    case 'L':
      return kLetter | kWord;
    case 'M':
      return kMark | kWord;
    case 'N':
      return name == "No" ? kNumber : kNumber | kWord;
    case 'Z':
      return kSpace;
    default:
      return name == "Pc" ? kWord : 0;
  }
}

void add_trait(std::uint8_t* table, char32_t first, char32_t last, Trait trait) {
  for (char32_t code = first; code <= last; ++code) table[code] |= trait;
}

std::unique_ptr<std::uint8_t[]> make_traits() {
  auto table = std::make_unique<std::uint8_t[]>(kCodes);
  for_each_run(data::kCategoryRuns, 5, [&](char32_t first, char32_t end, std::uint32_t category) {
    std::fill(&table[first], &table[0] + end, traits_of_category(kCategoryNames[category]));
  });
  add_trait(table.get(), 0x9, 0xd, kSpace);
  add_trait(table.get(), 0x85, 0x85, kSpace);
  // Alphabetic and Join_Control, which are not in the categories.
  for (const auto& [first, last] : {std::pair<char32_t, char32_t>{0x200c, 0x200d},
                                    {0x24b6, 0x24e9},
                                    {0x1f130, 0x1f149},
                                    {0x1f150, 0x1f169},
                                    {0x1f170, 0x1f189}})
    add_trait(table.get(), first, last, kWord);
  for_each_run(data::kCombiningRuns, 8, [&](char32_t first, char32_t end, std::uint32_t combining) {
    if (combining != 0) add_trait(table.get(), first, end - 1, kMayCompose);
  });
  for (const data::Decomposition& entry : data::kDecompositions) {
    if (!entry.composes) table[entry.code] |= kMayCompose;
    if (entry.composes) table[entry.second] |= kMayCompose;
  }
  add_trait(table.get(), 0x1161, 0x1175, kMayCompose);  // Hangul vowels
  add_trait(table.get(), 0x11a8, 0x11c2, kMayCompose);  // and final consonants
  return table;
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

/// Length in bytes of the longest incomplete character at the front of `text`, which does not begin with a
/// whole one; at least 1.
std::size_t broken_bytes(std::string_view text) {
  // Any continuation may complete an incomplete character, so the least and the greatest one are tried.
  for (std::size_t length = std::min<std::size_t>(3, text.size()); length > 1; --length)
    for (const char filler : {'\x80', '\xbf'})
      for (std::size_t more = 1; more <= 2; ++more) {
        std::string whole(text.substr(0, length));
        whole.append(more, filler);
        if (whole.size() <= 4 && valid_utf8_prefix(whole) == whole.size()) return length;
      }
  return 1;
}

}  // namespace

const std::uint8_t* traits() {
  static const std::unique_ptr<std::uint8_t[]> table = make_traits();
  return table.get();
}

std::vector<std::pair<char32_t, char32_t>> category_ranges(std::string_view name) {
  std::vector<std::pair<char32_t, char32_t>> ranges;
  if (name.empty()) return ranges;
  for_each_run(data::kCategoryRuns, 5, [&](char32_t first, char32_t end, std::uint32_t category) {
    if (!kCategoryNames[category].starts_with(name)) return;
    if (!ranges.empty() && ranges.back().second + 1 == first)
      ranges.back().second = end - 1;
    else
      ranges.emplace_back(first, end - 1);
  });
  return ranges;
}

std::uint8_t combining_class(char32_t code) {
  const auto after =
      std::ranges::upper_bound(data::kCombiningRuns, code, {}, [](std::uint32_t run) { return run >> 8; });
  return static_cast<std::uint8_t>(*(after - 1) & 0xff);
}

Character character_before(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (is_continuation(text[begin])) --begin;
  return character_at(text, begin);
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xe0 | code >> 12);
    } else {
      put(0xf0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3f));
    }
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

std::size_t unfinished_bytes(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(3, text.size()); ++length) {
    const std::string_view end = text.substr(text.size() - length);
    if (is_continuation(end[0])) continue;
    if (valid_utf8_prefix(end) > 0) return 0;
    const bool is_lead =
        static_cast<unsigned char>(end[0]) >= 0xc2 && static_cast<unsigned char>(end[0]) < 0xf5;
    return is_lead && broken_bytes(end) == length ? length : 0;
  }
  return 0;
}

std::int64_t append_repaired(std::string& out, std::string_view text) {
  std::int64_t repairs = 0;
  while (true) {
    const std::size_t valid = valid_utf8_prefix(text);
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) return repairs;
    out += kReplacement;
    text.remove_prefix(broken_bytes(text));
    ++repairs;
  }
}

}  // namespace sluice::text
