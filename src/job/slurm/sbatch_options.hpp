// Facts about a job in its options of sbatch, before it is submitted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// The value of an option, as "--array=1-3", "--array", "1-3", "-a1-3" or "-a", "1-3" give it; nothing
/// without it. `letter` may be "".
[[nodiscard]] std::optional<std::string> option_value(const std::vector<std::string>& options,
                                                      std::string_view name, std::string_view letter);

/// The tasks that the value of --array names, as in "0-15:5,20%2". Error(kUsage) if it names none.
[[nodiscard]] std::vector<std::int64_t> task_numbers(const std::string& array);

/// Number of ranks that the options ask for, or the scripts without them: one on each of three nodes.
[[nodiscard]] std::int64_t rank_count(const std::vector<std::string>& options);

}  // namespace sluice
