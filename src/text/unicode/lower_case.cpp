#include "text/unicode/character_mapping.hpp"
#include "text/unicode/unicode.hpp"
#include "text/unicode/unicode_data.hpp"

namespace sluice::text {

std::string lower_case(std::string_view text) {
  static const CharacterMapping mapping(data::kLowerCaseMappings);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Character character = character_at(text, i);
    const std::u32string_view lower = mapping.find(character.code);
    if (lower.empty()) out += text.substr(i, character.bytes);
    for (const char32_t code : lower) append_utf8(out, code);
    i += character.bytes;
  }
  return out;
}

}  // namespace sluice::text
