#include "comm/ranks_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace sluice {
namespace {

/// End of the run of consecutive numbers that starts at index `begin`.
std::size_t run_end(const std::vector<int>& ranks, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
  return end;
}

}  // namespace

std::string ranks_text(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.empty()) return "no rank";
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);

  std::string text = "ranks ";
  for (std::size_t begin = 0; begin < ranks.size();) {
    std::size_t end = run_end(ranks, begin);
    // Two neighbours read better as a list than as a range.
    if (end - begin == 2) end = begin + 1;
    if (begin > 0) text += ", ";
    text += end - begin == 1 ? fmt::format("{}", ranks[begin])
                             : fmt::format("{}-{}", ranks[begin], ranks[end - 1]);
    begin = end;
  }
  return text;
}

}  // namespace sluice
