// Names for the single numbers of a column's row.
#pragma once

#include "report/joined_metrics.hpp"

#include <string>
#include <vector>

namespace sluice {

/// "train/loss"; of a row of several "memory/peak_bytes/0", "moe/expert_tokens/0/17", in their order.
[[nodiscard]] std::vector<std::string> names_of_numbers(const JoinedColumn& column);

}  // namespace sluice
