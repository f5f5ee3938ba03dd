#include "data/sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace sluice {
namespace {

std::vector<std::int64_t> steps(const Sampler& sampler, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> all;
  for (std::int64_t step = begin; step < end; ++step) {
    const std::vector<std::int64_t> batch = sampler.batch(step);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

std::vector<std::int64_t> counted(std::int64_t size) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(size));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  return numbers;
}

TEST(Sampler, sequential_order_wraps_around) {
  const Sampler sampler(5, 3, DataOrder::kSequential, 0);
  EXPECT_THAT(steps(sampler, 0, 4), testing::ElementsAre(0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1));
}

TEST(Sampler, takes_a_batch_larger_than_the_data) {
  EXPECT_THAT(Sampler(2, 5, DataOrder::kSequential, 0).batch(0), testing::ElementsAre(0, 1, 0, 1, 0));
}

TEST(Sampler, shuffle_takes_every_sequence_once_an_epoch) {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4097}) {
    const Sampler sampler(size, 1, DataOrder::kShuffle, 7);
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<std::int64_t> taken = steps(sampler, epoch * size, (epoch + 1) * size);
      std::ranges::sort(taken);
      EXPECT_EQ(taken, counted(size));
    }
  }
}

TEST(Sampler, shuffle_differs_by_epoch_and_by_seed) {
  const Sampler sampler(100, 100, DataOrder::kShuffle, 7);
  EXPECT_NE(sampler.batch(0), sampler.batch(1));
  EXPECT_NE(sampler.batch(0), Sampler(100, 100, DataOrder::kShuffle, 8).batch(0));
  EXPECT_NE(sampler.batch(0), counted(100));
}

TEST(Sampler, shuffle_leaves_no_trace_of_the_order) {
  // Of a random permutation, neighbours follow each other in order about half the time, and one element stays
  // in place.
  const std::vector<std::int64_t> order = Sampler(10'000, 10'000, DataOrder::kShuffle, 0).batch(0);
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
    const std::vector<std::int64_t> order = Sampler(8, 8, DataOrder::kShuffle, 3).batch(epoch);
    ++place[static_cast<std::size_t>(std::find(order.begin(), order.end(), 0) - order.begin())];
  }
  EXPECT_THAT(place, testing::Each(testing::AllOf(testing::Gt(850), testing::Lt(1150))));
}

TEST(Sampler, any_step_can_be_asked_for_by_itself) {
  const Sampler sampler(11, 4, DataOrder::kShuffle, 1);
  const std::vector<std::int64_t> all = steps(sampler, 0, 20);
  for (std::int64_t step = 19; step >= 0; --step)
    EXPECT_THAT(Sampler(11, 4, DataOrder::kShuffle, 1).batch(step),
                testing::ElementsAreArray(all.begin() + step * 4, all.begin() + step * 4 + 4));
}

TEST(Sampler, does_not_depend_on_the_batch_size) {
  EXPECT_EQ(steps(Sampler(11, 4, DataOrder::kShuffle, 1), 0, 6),
            steps(Sampler(11, 6, DataOrder::kShuffle, 1), 0, 4));
}

TEST(Sampler, is_quick_for_a_huge_number_of_sequences) {
  const std::vector<std::int64_t> batch =
      Sampler(std::int64_t{1} << 40, 1000, DataOrder::kShuffle, 1).batch(1'000'000);
  EXPECT_THAT(batch, testing::Each(testing::AllOf(testing::Ge(0), testing::Lt(std::int64_t{1} << 40))));
}

}  // namespace
}  // namespace sluice
