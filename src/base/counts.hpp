// Vectors of counts, as plans and exchanges between ranks have them.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace sluice {

[[nodiscard]] inline std::int64_t sum(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// Each of them `factor` times: rows as bytes.
[[nodiscard]] inline std::vector<std::int64_t> times(std::vector<std::int64_t> counts, std::int64_t factor) {
  for (std::int64_t& count : counts) count *= factor;
  return counts;
}

}  // namespace sluice
