// A run's metrics in the formats of other programs.
#pragma once

#include "report/joined_metrics.hpp"

#include <cstdint>
#include <filesystem>

namespace sluice {

enum class TableFormat : std::uint8_t {
  kCsv,  ///< a header, a line a step; a cell for each number ("moe/expert_tokens/0/17"); empty where there is none
  kJsonl  ///< an object a step; lists for rows of several numbers; null where there is none
};

/// Every column. The file appears, or replaces an earlier one, when it is whole. Error(kIo).
void export_table(const JoinedMetrics& metrics, TableFormat format, const std::filesystem::path& file);

/// An event file in `directory`, which is made if it is missing, for TensorBoard: a tag for each number, but of
/// moe/expert_tokens a tag for each layer: "moe/busiest_expert/0", tokens of the busiest expert over their mean. A second
/// export replaces the first. Returns the file. Error(kIo).
std::filesystem::path export_events(const JoinedMetrics& metrics, const std::filesystem::path& directory);

}  // namespace sluice
