// The metrics files of one run: metrics.h5, and from each time it was resumed metrics.0001.h5 and so on.
#pragma once

#include <filesystem>
#include <vector>

namespace sluice {

/// "metrics.0002.h5" for "metrics.h5" and 2; the file itself for 0.
[[nodiscard]] std::filesystem::path metrics_segment(const std::filesystem::path& file, int number);

/// The files that are there, in the order in which they were written.
[[nodiscard]] std::vector<std::filesystem::path> existing_segments(const std::filesystem::path& file);

}  // namespace sluice
