#include "comm/root_exchange.hpp"

#include "support/mpi_test.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace sluice {
namespace {

using test::test_world;

/// Elements of each rank's part of 0, 1, 2, …: uneven, and one is empty.
std::vector<std::int64_t> counts() {
  std::vector<std::int64_t> of_ranks{2, 0, 1};
  of_ranks.resize(static_cast<std::size_t>(test_world().size()));
  return of_ranks;
}

std::vector<std::int32_t> own_part() {
  const auto rank = static_cast<std::size_t>(test_world().rank());
  const std::vector<std::int64_t> of_ranks = counts();
  std::vector<std::int32_t> part(static_cast<std::size_t>(of_ranks[rank]));
  std::iota(part.begin(), part.end(), static_cast<std::int32_t>(sum(std::span(of_ranks).first(rank))));
  return part;
}

std::vector<std::int32_t> whole_on_root() {
  if (test_world().rank() != 0) return {};
  std::vector<std::int32_t> whole(static_cast<std::size_t>(sum(counts())));
  std::iota(whole.begin(), whole.end(), 0);
  return whole;
}

TEST(RootExchange, scatters_uneven_and_empty_parts_in_rank_order) {
  EXPECT_EQ(scatter_from_root(test_world(), whole_on_root(), counts()), own_part());
}

TEST(RootExchange, sends_each_rank_no_more_than_its_part) {
  const Traffic before = test_world().traffic();
  static_cast<void>(scatter_from_root(test_world(), whole_on_root(), counts()));
  const bool is_root = test_world().rank() == 0;
  const auto received = is_root ? 0 : std::ssize(own_part()) * 4;
  EXPECT_EQ(test_world().traffic().received_bytes - before.received_bytes, received);
}

TEST(RootExchange, gathers_on_rank_0_what_was_scattered) {
  const std::vector<std::int32_t> own = own_part();
  EXPECT_EQ(gather_to_root(test_world(), std::span(own)), whole_on_root());
}

}  // namespace
}  // namespace sluice
