#include "train/expert_exchange.hpp"

#include "shard/shard_plan.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace sluice {
namespace {

using Gathering = ExpertExchange::Gathering;
constexpr std::int64_t kExperts = 7;
constexpr std::int64_t kWidth = 3;

/// Token t of rank r holds 100 r + t and chooses experts t and t + 3 (mod 7), with weights t and 1.
ops::ExpertTokens tokens_of(int rank, std::int64_t count, at::ScalarType dtype) {
  const at::Tensor token = at::arange(count, at::kLong);
  const at::Tensor x = (token + 100 * rank).unsqueeze(1).expand({count, kWidth}).to(dtype).contiguous();
  const at::Tensor experts = at::stack({token.remainder(kExperts), (token + 3).remainder(kExperts)}, 1);
  const at::Tensor weights = at::stack({token.to(at::kFloat), at::ones({count})}, 1);
  return {x, x * 2, experts.to(at::kInt), weights};
}

std::int64_t count_of(int rank, std::int64_t round) { return rank == 1 ? 0 : 4 * rank + 5 + round; }

/// Multiplies each token by the sum of (expert + 1) over its experts that are here.
at::Tensor work(const ops::ExpertTokens& here, std::int64_t first, std::int64_t end) {
  const at::Tensor is_here = here.experts.ge(first).logical_and(here.experts.lt(end));
  return here.x.to(at::kFloat) * ((here.experts + 1) * is_here).sum(1, true).to(at::kFloat);
}

void expect_round_trips(Gathering gathering, at::ScalarType dtype) {
  Communicator& comm = test::test_world();
  PhaseTimer timer;
  ExpertExchange exchange(&comm, kExperts, timer, MemoryKind::kPrivate, gathering);
  const std::int64_t end = equal_part_begin(kExperts, comm.size(), comm.rank() + 1);
  EXPECT_EQ(exchange.first_expert(), equal_part_begin(kExperts, comm.size(), comm.rank()));
  std::vector<std::int64_t> counts{count_of(comm.rank(), 0)};
  if (comm.rank() == 0) counts.push_back(count_of(0, 1));
  ASSERT_EQ(exchange.begin(counts), 2U);
  for (std::int64_t round = 0; round < 2; ++round) {
    const std::int64_t count = round < std::ssize(counts) ? counts[static_cast<std::size_t>(round)] : 0;
    const ops::ExpertTokens own = tokens_of(comm.rank(), count, dtype);
    exchange.begin_dispatch(own);
    const auto [here, is_own] = exchange.arriving();
    EXPECT_TRUE(gathering == Gathering::kNever || here.x.slice(0, is_own.begin, is_own.end).equal(own.x))
        << "own tokens need not travel";
    exchange.finish_dispatch();
    EXPECT_TRUE(here.d_out.equal(here.x * 2));
    const auto [sums, d_weights] = exchange.combine(work(here, exchange.first_expert(), end), here.weights);
    const at::Tensor factor = (own.experts + 1).sum(1, true).to(at::kFloat);
    EXPECT_EQ(sums.scalar_type(), dtype);
    EXPECT_TRUE(sums.to(at::kFloat).allclose(own.x.to(at::kFloat) * factor, 0.02)) << sums;
    EXPECT_EQ(d_weights.sizes(), own.weights.sizes());
  }
}

TEST(ExpertExchange, what_experts_make_of_a_token_comes_back_to_it) {
  for (const Gathering gathering : {Gathering::kAlways, Gathering::kNever})
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) expect_round_trips(gathering, dtype);
}

TEST(ExpertExchange, routing_sends_a_token_to_no_rank_without_one_of_its_experts) {
  Communicator& comm = test::test_world();
  PhaseTimer timer;
  ExpertExchange exchange(&comm, comm.size(), timer, MemoryKind::kPrivate, Gathering::kNever);
  ASSERT_EQ(exchange.begin({4}), 1U);
  const at::Tensor all_to_last = at::full({4, 1}, comm.size() - 1, at::kInt);
  exchange.begin_dispatch({at::ones({4, kWidth}), {}, all_to_last, at::ones({4, 1})});
  const ops::ExpertTokens here = exchange.arriving().tokens;
  exchange.finish_dispatch();
  const bool is_last = comm.rank() == comm.size() - 1;
  EXPECT_EQ(here.x.size(0), is_last ? 4 * comm.size() : 0);
  EXPECT_TRUE(exchange.combine(here.x * 5).eq(5).all().item<bool>());
}

TEST(ExpertExchange, without_a_group_tokens_stay) {
  PhaseTimer timer;
  ExpertExchange exchange(nullptr, kExperts, timer, MemoryKind::kPrivate);
  EXPECT_EQ(exchange.begin({3, 2}), 2U);
  const ops::ExpertTokens own = tokens_of(0, 3, at::kBFloat16);
  exchange.begin_dispatch(own);
  EXPECT_TRUE(exchange.arriving().tokens.x.is_same(own.x));
  exchange.finish_dispatch();
  EXPECT_EQ(exchange.combine(own.x.to(at::kFloat)).scalar_type(), at::kBFloat16);
}

}  // namespace
}  // namespace sluice
