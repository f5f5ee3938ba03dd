// The metrics files of one run: metrics.h5, and from each time it was resumed metrics.0001.h5 and so on.
#pragma once

#include "io/hdf5.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace sluice {

/// "metrics.0002.h5" for "metrics.h5" and 2; the file itself for 0.
[[nodiscard]] std::filesystem::path metrics_segment(const std::filesystem::path& file, int number);

/// The files that are there, in the order in which they were written.
[[nodiscard]] std::vector<std::filesystem::path> existing_segments(const std::filesystem::path& file);

/// The step of each row.
inline constexpr const char* kStepDataset = "/train/step";

/// The steps of a segment's rows, without one that was never finished. Error(kBadData) unless they are there
/// and ascend.
[[nodiscard]] std::vector<std::int64_t> read_steps(const hdf5::File& segment);

/// How many rows of each segment hold, from its first, by the steps of all: those that a later segment begins
/// with or goes past were trained again.
[[nodiscard]] std::vector<std::int64_t> rows_that_hold(std::span<const std::vector<std::int64_t>> steps);

}  // namespace sluice
