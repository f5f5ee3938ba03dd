#include "metrics/segments.hpp"

#include <fmt/format.h>

#include <system_error>

namespace sluice {
namespace fs = std::filesystem;

fs::path metrics_segment(const fs::path& file, int number) {
  if (number == 0) return file;
  fs::path segment = file;
  return segment.replace_filename(
      fmt::format("{}.{:04}{}", file.stem().string(), number, file.extension().string()));
}

std::vector<fs::path> existing_segments(const fs::path& file) {
  std::vector<fs::path> segments;
  std::error_code error;
  for (int number = 0;; ++number) {
    fs::path segment = metrics_segment(file, number);
    if (!fs::exists(segment, error)) return segments;
    segments.push_back(std::move(segment));
  }
}

}  // namespace sluice
