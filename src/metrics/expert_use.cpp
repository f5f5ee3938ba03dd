#include "metrics/expert_use.hpp"

#include <cmath>
#include <cstddef>

namespace sluice {

ExpertUse expert_use(std::span<const std::int64_t> tokens, std::int64_t experts) {
  ExpertUse use{.unused = std::ranges::count(tokens, 0)};
  const auto width = static_cast<std::size_t>(experts);
  for (std::size_t at = 0; at < tokens.size(); at += width)
    use.busiest = std::fmax(use.busiest, busiest_expert(tokens.subspan(at, width)));
  return use;
}

}  // namespace sluice
