// Identity of a directory of weights, without reading them all.
#pragma once

#include <filesystem>
#include <string>

namespace sluice {

/// Digest, in hexadecimal digits, of the names and lengths of all files of a directory but hidden ones, and of the
/// beginning, the middle and the end of each, 64 KiB at a time: weights that were trained on differ in all of
/// these. "" for an empty path. Error(kBadData) for a file that cannot be read.
[[nodiscard]] std::string sampled_digest(const std::filesystem::path& directory);

}  // namespace sluice
