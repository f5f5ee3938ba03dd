// Properties of characters by a table of stated versions, and UTF-8.
//
// Categories are Unicode 16.0's and normal forms Unicode 9.0's, as in the tokenizers library, from which
// published token ids come; the system's regular expressions and normalizers know other versions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::text {

/// General categories in the order of the generated table.
inline constexpr std::array<std::string_view, 30> kCategoryNames = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cs", "Cn"};

/// Traits of a character that classes in patterns ask for.
enum Trait : std::uint8_t {
  kLetter = 1,  ///< Letters, \p{L}.
  kMark = 2,    ///< Marks, \p{M}.
  kNumber = 4,  ///< Numbers, \p{N}.
  kSpace = 8,   ///< White_Space: \s
  kWord = 16,   ///< \w of Rust's regex
  /// Trait: normal form C may differ from the character, or depends on what precedes it.
  kMayCompose = 32,
};

/// Traits of each code point; 0x110000 of them.
[[nodiscard]] const std::uint8_t* traits();
[[nodiscard]] inline bool has(char32_t code, std::uint8_t any_of) { return (traits()[code] & any_of) != 0; }

/// Ranges [first, last], ascending, of the characters of a general category ("Nd") or a group of categories
/// ("N"); empty if there is no such category.
[[nodiscard]] std::vector<std::pair<char32_t, char32_t>> category_ranges(std::string_view name);

/// Canonical combining class of a character; 0 for most.
[[nodiscard]] std::uint8_t combining_class(char32_t code);

/// A character and the number of bytes that it has in UTF-8.
struct Character {
  char32_t code;
  std::uint32_t bytes;
};

/// Character at `at`; the text must be well-formed UTF-8.
[[nodiscard]] inline Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xe0) return {(lead & 0x1f) << 6 | (byte(1) & 0x3f), 2};
  if (lead < 0xf0) return {(lead & 0xf) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
  return {(lead & 7) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f), 4};
}
/// Character that ends before `end`, which must not be 0.
[[nodiscard]] Character character_before(std::string_view text, std::size_t end);
void append_utf8(std::string& out, char32_t code);

inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";  ///< replacement character, U+FFFD

/// Number of bytes at the end of `text` that begin a character which more bytes could complete: 0 to 3.
[[nodiscard]] std::size_t unfinished_bytes(std::string_view text);
/// Appends `text` with U+FFFD for each part that is no UTF-8, as Python's errors="replace" and Rust's
/// from_utf8_lossy do (the longest beginning of a character is one part); returns how many there were.
std::int64_t append_repaired(std::string& out, std::string_view text);

/// Normal forms of Unicode Standard Annex 15: decomposed (D) and composed (C), with compatibility characters
/// replaced (K).
enum class NormalForm : std::uint8_t { kC, kD, kKC, kKD };
[[nodiscard]] std::string normalized(std::string_view text, NormalForm form);

/// Text with every character in lower case, whatever precedes or follows it.
[[nodiscard]] std::string lower_case(std::string_view text);

}  // namespace sluice::text
