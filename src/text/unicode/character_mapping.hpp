// A generated table of characters that become others.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <unordered_map>

namespace sluice::text {

/// Mapping of characters to strings, from a generated table.
class CharacterMapping {
 public:
  /// `table` holds for each character its code, how many characters it becomes, and these; it must outlive
  /// the mapping.
  explicit CharacterMapping(std::span<const char32_t> table) {
    for (std::size_t i = 0; i < table.size(); i += 2 + table[i + 1])
      found_.emplace(table[i], std::u32string_view(&table[i + 2], table[i + 1]));
  }
  /// Characters that `code` maps to; empty if it maps to itself.
  [[nodiscard]] std::u32string_view find(char32_t code) const {
    const auto found = found_.find(code);
    return found == found_.end() ? std::u32string_view() : found->second;
  }

 private:
  std::unordered_map<char32_t, std::u32string_view> found_;
};

}  // namespace sluice::text
