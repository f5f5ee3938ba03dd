#include "metrics/segments.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

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
  for (int number = 0;; ++number) {
    fs::path segment = metrics_segment(file, number);
    if (!path_exists(segment)) return segments;
    segments.push_back(std::move(segment));
  }
}

std::vector<std::int64_t> read_steps(const hdf5::File& file) {
  constexpr std::int64_t kMostRows = std::int64_t{1}
                                     << 26;  // most steps: a file may claim any number, and no run has more
  if (!file.exists("/train") || !file.exists(kStepDataset))
    fail({ExitCode::kBadData, "metrics.file"},
         "{} has no dataset {}: it is not the metrics file of a training", file.name(), kStepDataset);
  const hdf5::Dataset dataset = file.dataset(kStepDataset);
  const std::vector<std::int64_t> shape = dataset.shape();
  if (shape.size() != 1 || !dataset.is_integer() || shape[0] > kMostRows)
    fail({ExitCode::kBadData, "metrics.file"},
         "{}: {} has the shape {}; expected one whole number for each step", file.name(), kStepDataset,
         shape_text(shape));
  if (const std::string reason = dataset.unreadable_reason(); !reason.empty())
    fail({ExitCode::kBadData, "metrics.file"}, "{}: {} cannot be read: {}", file.name(), kStepDataset,
         reason);
  std::vector<std::int64_t> steps = dataset.read<std::int64_t>();
  while (!steps.empty() && steps.back() == 0) steps.pop_back();
  if (std::ranges::adjacent_find(steps, std::greater_equal<>()) != steps.end())
    fail({ExitCode::kBadData, "metrics.file"}, "{}: the numbers in {} do not ascend", file.name(),
         kStepDataset);
  return steps;
}

std::vector<std::int64_t> rows_that_hold(std::span<const std::vector<std::int64_t>> steps) {
  std::vector<std::int64_t> kept(steps.size());
  std::int64_t next = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = steps.size(); i-- > 0;) {
    kept[i] = std::ranges::lower_bound(steps[i], next) - steps[i].begin();
    if (kept[i] > 0) next = steps[i].front();
  }
  return kept;
}

}  // namespace sluice
