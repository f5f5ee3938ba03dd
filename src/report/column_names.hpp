// Names of the single numbers in a column's row.
#pragma once

#include "report/joined_metrics.hpp"

#include <string>
#include <vector>

namespace sluice {

/// Names of the numbers in a row, in their order: "train/loss"; for rows of several numbers
/// "memory/peak_bytes/0", "moe/expert_tokens/0/17".
[[nodiscard]] std::vector<std::string> names_of_numbers(const JoinedColumn& column);

}  // namespace sluice
