#include "checkpoint/hosts/rank_disks.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

TEST(RankDisks, are_one_where_all_ranks_share_it) {
  const RankDisks disks = RankDisks::shared(3);
  EXPECT_EQ(disks.count(), 1);
  EXPECT_TRUE(disks.is_first(0));
  EXPECT_FALSE(disks.is_first(2));
}

TEST(RankDisks, copies_never_stay_on_the_disk_of_the_original_and_ranks_take_turns) {
  const RankDisks disks({0, 0, 0, 1, 2, 2});
  std::vector<int> partners;
  for (int rank = 0; rank < disks.world(); ++rank) partners.push_back(disks.partner(rank));
  EXPECT_EQ(partners, (std::vector<int>{3, 3, 3, 4, 0, 1}));
  for (int rank = 0; rank < disks.world(); ++rank)
    EXPECT_NE(disks.of(rank), disks.of(disks.partner(rank))) << rank;
}

TEST(RankDisks, know_what_an_earlier_set_saves_to_them) {
  const RankDisks disks({0, 0, 0, 1, 1, 1});
  const auto is_saved = [&](int set_ranks) {
    std::vector<bool> saved;
    for (int rank = 0; rank < disks.world(); ++rank)
      saved.push_back(disks.has_earlier_counterpart(rank, set_ranks));
    return saved;
  };
  EXPECT_EQ(is_saved(6), (std::vector<bool>{false, false, false, false, false, false}));
  EXPECT_EQ(is_saved(3), (std::vector<bool>{false, false, false, false, false, false}));
  EXPECT_EQ(is_saved(2), (std::vector<bool>{false, false, true, false, false, true}));
  EXPECT_EQ(is_saved(1), (std::vector<bool>{false, true, true, false, true, true}));
}

TEST(RankDisks, know_their_ranks_however_they_are_dealt) {
  const RankDisks disks({0, 1, 0, 1});
  EXPECT_EQ(disks.ranks_of(1), (std::vector<int>{1, 3}));
  EXPECT_EQ(disks.first_rank(1), 1);
  EXPECT_EQ(disks.partner(2), 3);
}

}  // namespace
}  // namespace sluice
