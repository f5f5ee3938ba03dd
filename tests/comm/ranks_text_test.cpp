#include "comm/ranks_text.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(RanksText, one_rank_is_singular) { EXPECT_EQ(ranks_text({2}), "rank 2"); }

TEST(RanksText, several_are_sorted_and_named_once) { EXPECT_EQ(ranks_text({3, 1, 3}), "ranks 1, 3"); }

TEST(RanksText, two_neighbours_are_listed) { EXPECT_EQ(ranks_text({1, 2}), "ranks 1, 2"); }

TEST(RanksText, runs_are_shortened) { EXPECT_EQ(ranks_text({0, 1, 2, 5, 7, 8, 9}), "ranks 0-2, 5, 7-9"); }

TEST(RanksText, none_is_said) { EXPECT_EQ(ranks_text({}), "no rank"); }

}  // namespace
}  // namespace sluice
