// Metrics files of one run: metrics.h5, and metrics.0001.h5 and so on from each resume.
#pragma once

#include "io/hdf5.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace sluice {

/// Path of segment number `segment`: "metrics.0002.h5" for "metrics.h5" and 2; the file itself for 0.
[[nodiscard]] std::filesystem::path metrics_segment(const std::filesystem::path& file, int number);

/// Segments that exist, in the order in which they were written.
[[nodiscard]] std::vector<std::filesystem::path> existing_segments(const std::filesystem::path& file);

/// Dataset with the step of each row.
inline constexpr const char* kStepDataset = "/train/step";

/// Steps of a segment's rows, without an unfinished row. Error(kBadData) unless they exist and ascend.
[[nodiscard]] std::vector<std::int64_t> read_steps(const hdf5::File& segment);

/// Number of valid rows in each segment, from its first one, by the steps of all segments: steps that a later
/// segment begins with or goes past were trained again.
[[nodiscard]] std::vector<std::int64_t> rows_that_hold(std::span<const std::vector<std::int64_t>> steps);

}  // namespace sluice
