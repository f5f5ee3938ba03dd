#include "data/mixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace sluice {
namespace {

using Place = Mixture::Place;

/// Sequences of one source, in the order in which they come.
std::vector<std::int64_t> of_source(const std::vector<Place>& places, std::size_t source) {
  std::vector<std::int64_t> sequences;
  for (const Place& place : places)
    if (place.source == source) sequences.push_back(place.sequence);
  return sequences;
}

Mixture three_sources(DataOrder order = DataOrder::kShuffle) {
  return {
      {{.sequences = 7, .weight = 1}, {.sequences = 100, .weight = 2.5}, {.sequences = 11, .weight = 0.1}},
      6,
      order,
      5};
}

TEST(Mixture, of_one_source_is_that_source) {
  const Sampler alone(11, DataOrder::kShuffle, 3);
  const Mixture mixture({{.sequences = 11, .weight = 0.3}}, 4, DataOrder::kShuffle, 3);
  for (const std::int64_t step : {0, 1, 7, 1000})
    EXPECT_EQ(of_source(mixture.batch(step), 0), alone.at(4 * step, 4 * step + 4)) << step;
}

TEST(Mixture, gives_each_source_its_share_up_to_any_position) {
  const Mixture mixture = three_sources();
  const std::vector<double> shares{1 / 3.6, 2.5 / 3.6, 0.1 / 3.6};
  std::vector<std::int64_t> counted(3);
  std::int64_t position = 0;
  for (const Place& place : mixture.at(0, 3000)) {
    ASSERT_EQ(mixture.taken(position), counted) << position;
    ++counted[place.source];
    ++position;
    for (std::size_t source = 0; source < 3; ++source)
      ASSERT_LT(
          std::abs(static_cast<double>(counted[source]) - static_cast<double>(position) * shares[source]), 3);
  }
}

TEST(Mixture, takes_every_sequence_of_a_source_once_in_each_of_its_epochs) {
  const std::vector<Place> places = three_sources().at(0, 2000);
  for (const auto& [source, size] :
       std::vector<std::pair<std::size_t, std::int64_t>>{{0, 7}, {1, 100}, {2, 11}}) {
    const std::vector<std::int64_t> taken = of_source(places, source);
    ASSERT_GT(std::ssize(taken), 2 * size);
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      const auto first = taken.begin() + epoch * size;
      EXPECT_EQ(std::ssize(std::set<std::int64_t>(first, first + size)), size) << source;
    }
  }
  const std::vector<Place> in_order = three_sources(DataOrder::kSequential).at(0, 200);
  EXPECT_THAT(of_source(in_order, 2), testing::ElementsAreArray({0, 1, 2, 3, 4, 5}));
}

TEST(Mixture, gives_any_step_by_itself) {
  const Mixture mixture = three_sources();
  const std::vector<Place> all = mixture.at(0, 6 * 200);
  for (const std::int64_t step : {199, 3, 100, 0, 57})
    EXPECT_THAT(three_sources().batch(step),
                testing::ElementsAreArray(all.begin() + step * 6, all.begin() + step * 6 + 6));
  EXPECT_EQ(three_sources().at(17, 900), std::vector<Place>(all.begin() + 17, all.begin() + 900));
}

TEST(Mixture, leaves_no_trace_of_a_period) {
  // Of two equal sources, one after the other and twice the same follow in a quarter of the pairs each at the
  // least.
  const Mixture mixture({{.sequences = 10, .weight = 1}, {.sequences = 10, .weight = 1}}, 1,
                        DataOrder::kShuffle, 1);
  const std::vector<Place> places = mixture.at(0, 4000);
  int same = 0;
  for (std::size_t i = 0; i + 1 < places.size(); ++i) same += places[i].source == places[i + 1].source;
  EXPECT_GT(same, 1000);
  EXPECT_LT(same, 2000);
}

TEST(Mixture, differs_by_seed_and_between_sources_of_one_size) {
  const auto of_seed = [](std::uint64_t seed) {
    return Mixture({{.sequences = 50, .weight = 1}, {.sequences = 50, .weight = 1}}, 1, DataOrder::kShuffle,
                   seed)
        .at(0, 100);
  };
  EXPECT_NE(of_seed(1), of_seed(2));
  const std::vector<std::int64_t> first = of_source(of_seed(1), 0), second = of_source(of_seed(1), 1);
  EXPECT_FALSE(std::equal(first.begin(), first.begin() + 40, second.begin()));
}

TEST(Mixture, is_right_far_along_and_with_weights_far_apart) {
  const Mixture mixture({{.sequences = 1000, .weight = 1e6},
                         {.sequences = 1000, .weight = 1e-6},
                         {.sequences = 1000, .weight = 3e5}},
                        1000, DataOrder::kShuffle, 1);
  const std::int64_t step = 1'000'000'000;
  EXPECT_EQ(std::ssize(mixture.batch(step)), 1000);
  const std::vector<std::int64_t> before = mixture.taken(step * 1000),
                                  after = mixture.taken((step + 1) * 1000);
  EXPECT_EQ(before[0] + before[1] + before[2], step * 1000);
  EXPECT_EQ(after[0] + after[1] + after[2], (step + 1) * 1000);
  EXPECT_EQ(of_source(mixture.batch(step), 2), mixture.sampler(2).at(before[2], after[2]));
}

}  // namespace
}  // namespace sluice
