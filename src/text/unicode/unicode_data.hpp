// Tables of the Unicode Character Database, generated; unicode.hpp is what reads them.
#pragma once

#include <array>
#include <cstdint>

namespace sluice::text::data {

/// One step of a canonical decomposition.
struct Decomposition {
  char32_t code;
  char32_t first;
  char32_t second;  ///< 0: none
  bool composes;    ///< first and second become `code` again
};

/// General categories as runs (first code point << 5 | general category), ascending. Unicode 16.0.
extern const std::array<std::uint32_t, 4099> kCategoryRuns;
/// Combining classes as runs (first code point << 8 | canonical combining class), ascending. Unicode 9.0.
extern const std::array<std::uint32_t, 496> kCombiningRuns;
/// Canonical decompositions in ascending order of code point, without Hangul. Unicode 9.0.
extern const std::array<Decomposition, 2060> kDecompositions;

/// Characters that become others, ascending: each as its code, how many it becomes, and these.
/// What normal forms KD and KC take characters apart to where D does not. Unicode 9.0.
extern const std::array<char32_t, 12955> kCompatibilityMappings;
/// Lower-case letters, as the tokenizers library makes them.
extern const std::array<char32_t, 4465> kLowerCaseMappings;

}  // namespace sluice::text::data
