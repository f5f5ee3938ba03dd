// Normal forms (Unicode Standard Annex 15).
#include "text/unicode/character_mapping.hpp"
#include "text/unicode/unicode.hpp"
#include "text/unicode/unicode_data.hpp"

#include <algorithm>
#include <unordered_map>

namespace sluice::text {
namespace {

// Hangul syllables are computed (The Unicode Standard, 3.12).
constexpr char32_t kSyllables = 0xac00;
constexpr char32_t kLeads = 0x1100;
constexpr char32_t kVowels = 0x1161;
constexpr char32_t kTrails = 0x11a7;
constexpr char32_t kLeadCount = 19;
constexpr char32_t kVowelCount = 21;
constexpr char32_t kTrailCount = 28;
constexpr char32_t kSyllableCount = kLeadCount * kVowelCount * kTrailCount;

void append_decomposed(std::u32string& out, char32_t code) {
  if (code - kSyllables < kSyllableCount) {
    const char32_t index = code - kSyllables;
    out.push_back(kLeads + index / (kVowelCount * kTrailCount));
    out.push_back(kVowels + index / kTrailCount % kVowelCount);
    if (index % kTrailCount != 0) out.push_back(kTrails + index % kTrailCount);
    return;
  }
  const auto found = std::ranges::lower_bound(data::kDecompositions, code, {}, &data::Decomposition::code);
  if (found == data::kDecompositions.end() || found->code != code) {
    out += code;
    return;
  }
  append_decomposed(out, found->first);
  if (found->second != 0) append_decomposed(out, found->second);
}

char32_t composed_hangul(char32_t first, char32_t second) {
  if (first - kLeads < kLeadCount && second - kVowels < kVowelCount)
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTrailCount;
  const bool takes_trail = first - kSyllables < kSyllableCount && (first - kSyllables) % kTrailCount == 0;
  if (takes_trail && second > kTrails && second < kTrails + kTrailCount) return first + (second - kTrails);
  return 0;
}

/// Composition of two characters, or 0.
char32_t composed(char32_t first, char32_t second) {
  static const auto pairs = [] {
    std::unordered_map<std::uint64_t, char32_t> all;
    for (const data::Decomposition& entry : data::kDecompositions)
      if (entry.composes) all[std::uint64_t{entry.first} << 32 | entry.second] = entry.code;
    return all;
  }();
  if (const char32_t hangul = composed_hangul(first, second)) return hangul;
  const auto found = pairs.find(std::uint64_t{first} << 32 | second);
  return found == pairs.end() ? 0 : found->second;
}

void sort_marks(std::u32string& text) {
  for (std::size_t i = 0; i < text.size();) {
    if (combining_class(text[i]) == 0) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    std::stable_sort(text.data() + i, text.data() + end,
                     [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    i = end;
  }
}

/// Joins the characters of a decomposed text in place.
void join(std::u32string& text) {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t starter = kNone;
  std::size_t kept = 0;
  int last_class = -1;  // combining class of the last mark kept after the starter; -1: none
  for (const char32_t code : text) {
    const int combining = combining_class(code);
    if (starter != kNone && last_class < combining)
      if (const char32_t joined = composed(text[starter], code)) {
        text[starter] = joined;
        continue;
      }
    if (combining == 0) {
      starter = kept;
      last_class = -1;
    } else {
      last_class = combining;
    }
    text[kept++] = code;
  }
  text.resize(kept);
}

void append_compatible(std::u32string& out, char32_t code) {
  static const CharacterMapping mapping(data::kCompatibilityMappings);
  const std::u32string_view mapped = mapping.find(code);
  if (mapped.empty())
    append_decomposed(out, code);
  else
    out += mapped;
}

bool is_compatible(NormalForm form) { return form == NormalForm::kKC || form == NormalForm::kKD; }
bool is_composed(NormalForm form) { return form == NormalForm::kC || form == NormalForm::kKC; }

/// `text` begins with a character that nothing before it composes with.
void append_normalized(std::string& out, std::string_view text, NormalForm form) {
  std::u32string codes;
  for (std::size_t i = 0; i < text.size();) {
    const Character character = character_at(text, i);
    if (is_compatible(form))
      append_compatible(codes, character.code);
    else
      append_decomposed(codes, character.code);
    i += character.bytes;
  }
  sort_marks(codes);
  if (is_composed(form)) join(codes);
  for (const char32_t code : codes) append_utf8(out, code);
}

/// Normal form C, of which most text is already: only what may not be is taken apart.
std::string composed(std::string_view text) {
  std::string out;
  std::size_t done = 0;      // bytes of `text` that are in `out`
  std::size_t boundary = 0;  // the last place at which text can be taken apart
  for (std::size_t i = 0; i < text.size();) {
    Character character = character_at(text, i);
    if (!has(character.code, kMayCompose)) {
      boundary = i;
      i += character.bytes;
      continue;
    }
    while (has(character.code, kMayCompose)) {
      i += character.bytes;
      if (i == text.size()) break;
      character = character_at(text, i);
    }
    out += text.substr(done, boundary - done);
    append_normalized(out, text.substr(boundary, i - boundary), NormalForm::kC);
    done = boundary = i;
  }
  out += text.substr(done);
  return out;
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
}

}  // namespace

std::string normalized(std::string_view text, NormalForm form) {
  if (form == NormalForm::kC) return composed(text);
  if (is_ascii(text)) return std::string(text);
  std::string out;
  append_normalized(out, text, form);
  return out;
}

}  // namespace sluice::text
