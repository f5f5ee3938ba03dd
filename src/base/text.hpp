// Small text helpers for error messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// The candidate with the least edit distance to `word`, or "" if none is near (more than a third of its
/// letters wrong).
[[nodiscard]] std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// Bytes at the front of `text` that are well-formed UTF-8 (no surrogates, no overlong forms); its whole size
/// if it all is.
[[nodiscard]] std::size_t valid_utf8_prefix(std::string_view text);

/// `text` fit for a log: control characters and broken UTF-8 as \xNN, cut to `limit` bytes with "…".
[[nodiscard]] std::string printable(std::string_view text, std::size_t limit = 120);

/// "a, b, c and 12 more": at most `most` of the items.
[[nodiscard]] std::string join_some(std::span<const std::string> items, std::size_t most = 10);

/// The first `most` items, each on a line of its own: a '\n', four blanks, the item; then how many more there
/// are.
[[nodiscard]] std::string lines_of_some(std::span<const std::string> items, std::size_t most);

/// Lines of at most `width` bytes, broken at blanks; a longer word has a line of its own. At least one line.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// The number that a text of digits alone is; nothing for another text, or a number that does not fit.
[[nodiscard]] std::optional<std::int64_t> whole_number(std::string_view text);

/// The number whose digits a text begins with; nothing where it begins with others, or the number does not
/// fit.
[[nodiscard]] std::optional<std::int64_t> leading_number(std::string_view text);

/// The number behind the first `mark` in a text, as leading_number().
[[nodiscard]] std::optional<std::int64_t> number_behind(std::string_view text, std::string_view mark);

/// "[128, 1536, 2048]"
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace sluice
