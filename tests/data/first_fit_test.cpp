#include "data/first_fit.hpp"

#include "base/random.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The rule as it is written.
std::int32_t bins_by_rule(std::vector<std::int32_t> sizes, std::int32_t capacity) {
  std::ranges::sort(sizes, std::ranges::greater());
  std::vector<std::int32_t> rooms;
  for (const std::int32_t size : sizes) {
    auto bin = std::ranges::find_if(rooms, [&](std::int32_t room) { return room >= size; });
    if (bin == rooms.end()) bin = rooms.insert(rooms.end(), capacity);
    *bin -= size;
  }
  return static_cast<std::int32_t>(rooms.size());
}

std::vector<std::int32_t> drawn_sizes(int count, std::int32_t largest, std::uint64_t seed) {
  const RandomStream stream(seed, "sizes");
  std::vector<std::int32_t> sizes;
  for (int i = 0; i < count; ++i)
    sizes.push_back(1 + static_cast<std::int32_t>(stream.bits(static_cast<std::uint64_t>(i)) %
                                                  static_cast<std::uint64_t>(largest)));
  return sizes;
}

TEST(FirstFit, puts_large_sizes_first_and_numbers_bins_as_the_sizes_come) {
  // 7 and 3 share a bin, then 6 and 4, then 5.
  const Bins bins = first_fit_decreasing(std::vector<std::int32_t>{3, 4, 5, 6, 7}, 10);
  EXPECT_EQ(bins.count, 3);
  EXPECT_THAT(bins.bin_of, ElementsAre(0, 1, 2, 1, 0));
}

TEST(FirstFit, of_nothing_is_no_bin) {
  EXPECT_EQ(first_fit_decreasing({}, 10).count, 0);
  EXPECT_THAT(first_fit_decreasing({}, 10).bin_of, IsEmpty());
}

TEST(FirstFit, is_the_rule_and_overfills_no_bin) {
  for (const int count : {1, 2, 3, 64, 65, 1000}) {
    const std::vector<std::int32_t> sizes = drawn_sizes(count, 100, static_cast<std::uint64_t>(count));
    const Bins bins = first_fit_decreasing(sizes, 100);
    EXPECT_EQ(bins.count, bins_by_rule(sizes, 100)) << count;
    std::vector<std::int32_t> filled(static_cast<std::size_t>(bins.count));
    for (std::size_t i = 0; i < sizes.size(); ++i)
      filled[static_cast<std::size_t>(bins.bin_of[i])] += sizes[i];
    EXPECT_LE(std::ranges::max(filled), 100);
    EXPECT_GT(std::ranges::min(filled), 0) << "no bin is empty";
  }
}

}  // namespace
}  // namespace sluice
