// Text helpers for error messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// The candidate with the least edit distance to `word`; "" if none is near (more than a third of its letters
/// differ).
[[nodiscard]] std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// Number of bytes at the front of `text` that are well-formed UTF-8 (no surrogates, no overlong forms).
[[nodiscard]] std::size_t valid_utf8_prefix(std::string_view text);

/// `text` made fit for a log: control characters and broken UTF-8 become \xNN, and it is cut to `limit` bytes
/// with "…".
[[nodiscard]] std::string printable(std::string_view text, std::size_t limit = 120);

/// At most `most` items as a list, "a, b, c and 12 more".
[[nodiscard]] std::string join_some(std::span<const std::string> items, std::size_t most = 10);

/// At most `most` items, each on a line of its own ('\n', four blanks, the item), and how many more there
/// are.
[[nodiscard]] std::string lines_of_some(std::span<const std::string> items, std::size_t most);

/// A number of things with their noun: counted(1, "file") is "1 file", counted(3, "copy") "3 copies".
[[nodiscard]] std::string counted(std::int64_t count, std::string_view noun);
/// The verb behind so many things: "is" or "are".
[[nodiscard]] std::string_view is_or_are(std::int64_t count);

/// Text broken at blanks into lines of at most `width` bytes; a longer word has a line of its own. At least
/// one line.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// The number that a text of digits spells; nothing for any other text, or if the number does not fit.
[[nodiscard]] std::optional<std::int64_t> whole_number(std::string_view text);

/// The number whose digits begin a text; nothing if the text begins with others, or if the number does not
/// fit.
[[nodiscard]] std::optional<std::int64_t> leading_number(std::string_view text);

/// The number behind the first `mark` in a text, as leading_number() reads it.
[[nodiscard]] std::optional<std::int64_t> number_behind(std::string_view text, std::string_view mark);

/// Shape as text: "[128, 1536, 2048]".
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace sluice
