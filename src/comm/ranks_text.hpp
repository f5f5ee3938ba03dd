// Ranks in messages.
#pragma once

#include <string>
#include <vector>

namespace sluice {

/// "rank 2", "ranks 1, 2", "ranks 0-5, 7": ascending, each once. "no rank" for none.
[[nodiscard]] std::string ranks_text(std::vector<int> ranks);

}  // namespace sluice
