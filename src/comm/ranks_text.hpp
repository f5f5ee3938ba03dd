// Texts that name ranks in messages.
#pragma once

#include <string>
#include <vector>

namespace sluice {

/// Names ranks, ascending and each once: "rank 2", "ranks 1, 2", "ranks 0-5, 7"; "no rank" for none.
[[nodiscard]] std::string ranks_text(std::vector<int> ranks);

}  // namespace sluice
