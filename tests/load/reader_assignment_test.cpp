#include "load/reader_assignment.hpp"

#include <gmock/gmock.h>

#include <array>

namespace sluice {
namespace {

using testing::ElementsAre;

TEST(ReaderAssignment, rank_zero_reads_for_all) {
  const ReaderAssignment readers = ReaderAssignment::rank0(3);
  EXPECT_THAT(readers.readers(), ElementsAre(0));
  EXPECT_EQ(readers.reader_of(2), 0);
}

TEST(ReaderAssignment, the_lowest_rank_of_a_node_reads_for_it) {
  const std::array<int, 6> nodes{4, 0, 4, 0, 0, 7};
  const ReaderAssignment readers = ReaderAssignment::node(nodes);
  EXPECT_THAT(readers.readers(), ElementsAre(0, 1, 5));
  EXPECT_EQ(readers.reader_of(2), 0);
  EXPECT_EQ(readers.reader_of(4), 1);
  EXPECT_TRUE(readers.is_reader(5));
}

TEST(ReaderAssignment, every_rank_reads_for_itself) {
  const ReaderAssignment readers = ReaderAssignment::all(3);
  EXPECT_THAT(readers.readers(), ElementsAre(0, 1, 2));
  EXPECT_EQ(readers.reader_of(1), 1);
}

}  // namespace
}  // namespace sluice
