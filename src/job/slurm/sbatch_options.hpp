// Reads options of sbatch, before a job is submitted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Value of an option given as "--array=1-3", "--array", "1-3", "-a1-3" or "-a", "1-3"; nothing if it is not
/// given. `letter` may be "".
[[nodiscard]] std::optional<std::string> option_value(const std::vector<std::string>& options,
                                                      std::string_view name, std::string_view letter);

/// Task numbers in the value of --array, such as "0-15:5,20%2". Error(kUsage) if it has none.
[[nodiscard]] std::vector<std::int64_t> task_numbers(const std::string& array);

/// Number of ranks that the options ask for; without any, that of the scripts: one on each of three nodes.
[[nodiscard]] std::int64_t rank_count(const std::vector<std::string>& options);

}  // namespace sluice
