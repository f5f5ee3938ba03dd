#include "comm/solo_communicator.hpp"

#include "comm/run_together.hpp"
#include "comm/wait.hpp"

#include <gtest/gtest.h>

#include <array>

namespace sluice {
namespace {

TEST(SoloCommunicator, is_rank_0_of_1_also_where_it_is_split) {
  SoloCommunicator self;
  self.set_deadline("plan", 7);
  const std::unique_ptr<Communicator> part = self.split(3, 1);
  EXPECT_EQ(part->rank(), 0);
  EXPECT_EQ(part->size(), 1);
  EXPECT_EQ(part->limit().seconds, 7);
}

TEST(SoloCommunicator, gives_collectives_their_own_part) {
  SoloCommunicator self;
  const std::array<float, 2> in{1, 2};
  std::array<float, 2> gathered{}, reduced{}, exchanged{};
  const std::array<std::int64_t, 1> bytes{sizeof in}, counts{2};
  self.all_gather(in.data(), gathered.data(), bytes, nullptr).wait();
  self.reduce_scatter_sum(in.data(), reduced.data(), counts, nullptr, DType::kFloat32).wait();
  self.all_to_all(in.data(), bytes, exchanged.data(), bytes, nullptr).wait();
  EXPECT_EQ(gathered, in);
  EXPECT_EQ(reduced, in);
  EXPECT_EQ(exchanged, in);
  EXPECT_EQ(self.all_gather_text("own"), std::vector<std::string>{"own"});
}

TEST(SoloCommunicator, lets_steps_of_all_ranks_fail_as_those_of_one) {
  SoloCommunicator self;
  EXPECT_EQ(share_from_root(self, [] { return std::string("headers"); }), "headers");
  EXPECT_THROW(run_together(self, [] { fail(ExitCode::kBadData, "a.safetensors: cut short"); }), SharedError);
}

}  // namespace
}  // namespace sluice
