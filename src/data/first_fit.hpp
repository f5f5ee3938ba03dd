// Bin packing: assignment of sizes to bins.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Assignment of sizes to bins.
struct Bins {
  std::vector<std::int32_t> bin_of;  ///< number of the bin of each size
  std::int32_t count = 0;
};

/// First-fit decreasing: the largest sizes first, of equal ones the earlier, each into the first bin that has
/// room. Bins are numbered in the order in which the sizes, as they are given, name them. Sizes are from 1 to
/// `capacity`. Takes the logarithm of their number for each, and 40 bytes.
[[nodiscard]] Bins first_fit_decreasing(std::span<const std::int32_t> sizes, std::int32_t capacity);

}  // namespace sluice
