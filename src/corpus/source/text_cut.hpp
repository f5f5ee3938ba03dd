// Cut of a text that is one document, so that its end can be held out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace sluice::corpus {

/// Whether `separator` stands in the file with anything behind it: then its text is several documents. False
/// for an empty separator. Reads the file up to there, in constant memory. Error(kBadData) if it cannot be
/// read.
[[nodiscard]] bool holds_separator(const std::filesystem::path& file, std::string_view separator);

/// Returns the byte at which the held-out end of a text begins: near the last `share` of the text, in (0, 1),
/// at the end of a paragraph, else of a line, else after a space; 0 if there is no such place nearby.
/// Error(kBadData) if the text cannot be read.
[[nodiscard]] std::int64_t holdout_begin(const std::filesystem::path& file, double share);

}  // namespace sluice::corpus
