#include "data/sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace sluice {
namespace {

std::vector<std::int64_t> counted(std::int64_t size) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(size));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  return numbers;
}

TEST(Sampler, sequential_order_wraps_around) {
  const Sampler sampler(5, DataOrder::kSequential, 0);
  EXPECT_THAT(sampler.at(0, 12), testing::ElementsAre(0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1));
}

TEST(Sampler, takes_more_at_once_than_there_is) {
  EXPECT_THAT(Sampler(2, DataOrder::kSequential, 0).at(0, 5), testing::ElementsAre(0, 1, 0, 1, 0));
}

TEST(Sampler, shuffle_takes_every_sequence_once_an_epoch) {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4097}) {
    const Sampler sampler(size, DataOrder::kShuffle, 7);
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<std::int64_t> taken = sampler.at(epoch * size, (epoch + 1) * size);
      std::ranges::sort(taken);
      EXPECT_EQ(taken, counted(size));
    }
  }
}

TEST(Sampler, shuffle_differs_by_epoch_and_by_seed) {
  const Sampler sampler(100, DataOrder::kShuffle, 7);
  EXPECT_NE(sampler.at(0, 100), sampler.at(100, 200));
  EXPECT_NE(sampler.at(0, 100), Sampler(100, DataOrder::kShuffle, 8).at(0, 100));
  EXPECT_NE(sampler.at(0, 100), counted(100));
}

TEST(Sampler, shuffle_leaves_no_trace_of_the_order) {
  // Of a random permutation, neighbours follow each other in order about half the time, and one element stays
  // in place.
  const std::vector<std::int64_t> order = Sampler(10'000, DataOrder::kShuffle, 0).at(0, 10'000);
  int rising = 0;
  int fixed = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    rising += order[i] < order[i + 1];
    fixed += order[i] == static_cast<std::int64_t>(i);
  }
  EXPECT_NEAR(rising, 5'000, 150);
  EXPECT_LT(fixed, 8);
}

TEST(Sampler, shuffle_sends_each_sequence_anywhere) {
  // Where sequence 0 of 8 lands over 8000 epochs: 1000 times each place, within five standard deviations.
  std::vector<int> place(8);
  for (std::int64_t epoch = 0; epoch < 8000; ++epoch) {
    const std::vector<std::int64_t> order = Sampler(8, DataOrder::kShuffle, 3).at(8 * epoch, 8 * epoch + 8);
    ++place[static_cast<std::size_t>(std::find(order.begin(), order.end(), 0) - order.begin())];
  }
  EXPECT_THAT(place, testing::Each(testing::AllOf(testing::Gt(850), testing::Lt(1150))));
}

TEST(Sampler, any_part_can_be_asked_for_by_itself) {
  const Sampler sampler(11, DataOrder::kShuffle, 1);
  const std::vector<std::int64_t> all = sampler.at(0, 80);
  for (std::int64_t begin = 76; begin >= 0; begin -= 4)
    EXPECT_THAT(Sampler(11, DataOrder::kShuffle, 1).at(begin, begin + 4),
                testing::ElementsAreArray(all.begin() + begin, all.begin() + begin + 4));
}

TEST(Sampler, is_quick_for_a_huge_number_of_sequences) {
  const std::vector<std::int64_t> batch =
      Sampler(std::int64_t{1} << 40, DataOrder::kShuffle, 1).at(1'000'000'000, 1'000'001'000);
  EXPECT_THAT(batch, testing::Each(testing::AllOf(testing::Ge(0), testing::Lt(std::int64_t{1} << 40))));
}

}  // namespace
}  // namespace sluice
