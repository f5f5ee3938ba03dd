// Ranges of numbered things, and counts of them, for plans and exchanges between ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace sluice {

/// Half-open range [begin, end).
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t count() const { return end - begin; }
};

/// The common part of two ranges; its count is 0 or below if there is none.
[[nodiscard]] constexpr Range common(Range a, Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// Begin of the i-th of n parts of `count` things; i = n gives the end. Sizes differ by at most one; earlier
/// parts are the larger ones.
[[nodiscard]] constexpr std::int64_t equal_part_begin(std::int64_t count, std::int64_t n, std::int64_t i) {
  return count / n * i + (count % n < i ? count % n : i);
}

/// The i-th of n equal parts of `count` things, i < n.
[[nodiscard]] constexpr Range equal_part(std::int64_t count, std::int64_t n, std::int64_t i) {
  return {equal_part_begin(count, n, i), equal_part_begin(count, n, i + 1)};
}

/// Sum of counts: of the bytes for each rank, for example.
[[nodiscard]] inline std::int64_t sum(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// Each count times `factor`: numbers of rows as bytes, for example.
[[nodiscard]] inline std::vector<std::int64_t> times(std::vector<std::int64_t> counts, std::int64_t factor) {
  for (std::int64_t& count : counts) count *= factor;
  return counts;
}

}  // namespace sluice
