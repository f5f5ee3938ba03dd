#include "checkpoint/hosts/fetched_blocks.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

namespace sluice {
namespace {

TEST(StepReaders, a_rank_reads_itself_what_its_disk_has) {
  const StepReaders readers({{0}, {1, 2}}, RankDisks({0, 0, 1, 2}));
  EXPECT_EQ(readers.reader_of(0, 1), 1);
  EXPECT_EQ(readers.reader_of(1, 3), 3);
  EXPECT_EQ(StepReaders().reader_of(7, 2), 2);
}

TEST(StepReaders, ranks_of_the_disks_that_have_a_file_take_turns) {
  const StepReaders readers({{0}, {0}, {1, 2}}, RankDisks({0, 0, 1, 2}));
  EXPECT_EQ((std::set{readers.reader_of(0, 2), readers.reader_of(1, 2)}), (std::set{0, 1}));
  EXPECT_EQ((std::set{readers.reader_of(2, 0), readers.reader_of(2, 1)}), (std::set{2, 3}));
}

TEST(OrderTransfers, each_rank_sends_and_receives_at_most_one_block_in_a_round_and_in_its_order) {
  std::vector<std::vector<WantedBlock>> wanted(3);
  for (int block = 0; block < 5; ++block) {
    wanted[0].push_back({{0, block}, 1});
    wanted[2].push_back({{0, block}, 1});
    wanted[1].push_back({{1, block}, 2});
  }
  const std::vector<BlockTransfer> transfers = order_transfers(wanted);
  ASSERT_EQ(transfers.size(), 15);
  std::map<std::pair<int, std::int64_t>, int> sent, received;
  std::map<int, std::vector<std::int64_t>> order;
  for (const BlockTransfer& transfer : transfers) {
    EXPECT_EQ(++sent[std::pair(transfer.from, transfer.round)], 1);
    EXPECT_EQ(++received[std::pair(transfer.to, transfer.round)], 1);
    order[transfer.to].push_back(transfer.place.block);
  }
  for (const auto& [rank, blocks] : order)
    EXPECT_EQ(blocks, (std::vector<std::int64_t>{0, 1, 2, 3, 4})) << rank;
  EXPECT_EQ(transfers.back().round, 9) << "two ranks want five blocks each of one";
}

TEST(OrderTransfers, has_nothing_to_do_where_every_rank_reads_for_itself) {
  EXPECT_TRUE(order_transfers(std::vector<std::vector<WantedBlock>>(4)).empty());
}

}  // namespace
}  // namespace sluice
