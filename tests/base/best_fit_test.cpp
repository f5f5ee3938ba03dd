#include "base/memory/best_fit.hpp"

#include "base/error.hpp"
#include "base/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace sluice {
namespace {

TEST(BestFit, blocks_follow_each_other_from_the_beginning) {
  BestFit range(100);
  EXPECT_EQ(range.place(10), 0);
  EXPECT_EQ(range.place(20), 10);
}

TEST(BestFit, a_block_goes_into_the_smallest_gap_that_holds_it) {
  BestFit range(100);
  for (const std::int64_t size : {30, 1, 10, 1, 20, 1}) static_cast<void>(range.place(size));
  for (const std::int64_t begin : {0, 31, 42}) range.release(begin);  // gaps of 30, 10 and 20
  EXPECT_EQ(range.place(15), 42);
  EXPECT_EQ(range.place(10), 31);
  EXPECT_EQ(range.place(6), 0);  // what the first took has left too little
}

TEST(BestFit, what_is_released_on_both_sides_becomes_one_gap) {
  BestFit range(30);
  for (int i = 0; i < 3; ++i) static_cast<void>(range.place(10));
  EXPECT_EQ(range.place(1), std::nullopt);
  range.release(0);
  range.release(20);
  EXPECT_EQ(range.place(11), std::nullopt);
  range.release(10);
  EXPECT_EQ(range.place(30), 0);
}

TEST(BestFit, blocks_of_the_same_sizes_need_no_more_room_the_second_time) {
  BestFit range(1000);
  const auto fill = [&] {
    std::vector<std::int64_t> begins;
    for (const std::int64_t size : {64, 8, 128, 8, 64}) begins.push_back(range.place(size).value());
    return begins;
  };
  const std::vector<std::int64_t> first = fill();
  for (const std::int64_t begin : first) range.release(begin);
  EXPECT_EQ(fill(), first);
}

TEST(BestFit, what_is_not_there_cannot_be_released) {
  BestFit range(100);
  static_cast<void>(range.place(10));
  EXPECT_THROW(range.release(5), Error);
  range.release(0);
  EXPECT_THROW(range.release(0), Error);
}

TEST(BestFit, blocks_never_overlap_whatever_comes_and_goes) {
  constexpr std::int64_t kCapacity = 4096;
  const RandomStream random(7, "blocks");
  BestFit range(kCapacity);
  std::map<std::int64_t, std::int64_t> blocks;
  std::int64_t used = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const auto number = static_cast<std::int64_t>(random.bits(i) >> 1);
    const std::int64_t size = 1 + number % 200;
    if (number % 3 == 0 && !blocks.empty()) {
      const auto block = std::next(blocks.begin(), number / 1000 % std::ssize(blocks));
      range.release(block->first);
      used -= block->second;
      blocks.erase(block);
    } else if (const std::optional<std::int64_t> begin = range.place(size)) {
      const auto after = blocks.lower_bound(*begin);
      ASSERT_TRUE(after == blocks.end() || *begin + size <= after->first);
      ASSERT_TRUE(after == blocks.begin() || std::prev(after)->first + std::prev(after)->second <= *begin);
      ASSERT_TRUE(*begin >= 0 && *begin + size <= kCapacity);
      blocks.emplace(*begin, size);
      used += size;
    } else {
      ASSERT_GT(used + size * (std::ssize(blocks) + 1), kCapacity) << "no gap was too small for it";
    }
  }
  for (const auto& [begin, size] : blocks) range.release(begin);
  EXPECT_EQ(range.place(kCapacity), 0);
}

}  // namespace
}  // namespace sluice
