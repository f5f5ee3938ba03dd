#include "train/expert_exchange.hpp"

#include "shard/shard_plan.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <limits>
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
  ExpertExchange exchange(&comm, kExperts, timer, MemoryKind::kPrivate, TokenFormat::kDType, gathering);
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
  ExpertExchange exchange(&comm, comm.size(), timer, MemoryKind::kPrivate, TokenFormat::kDType,
                          Gathering::kNever);
  ASSERT_EQ(exchange.begin({4}), 1U);
  const at::Tensor all_to_last = at::full({4, 1}, comm.size() - 1, at::kInt);
  exchange.begin_dispatch({at::ones({4, kWidth}), {}, all_to_last, at::ones({4, 1})});
  const ops::ExpertTokens here = exchange.arriving().tokens;
  exchange.finish_dispatch();
  const bool is_last = comm.rank() == comm.size() - 1;
  EXPECT_EQ(here.x.size(0), is_last ? 4 * comm.size() : 0);
  EXPECT_TRUE(exchange.combine(here.x * 5).eq(5).all().item<bool>());
}

/// Rows of width 131, of which the last block has three elements; each block's largest magnitude is 127 scales.
ops::ExpertTokens odd_tokens(int rank, at::ScalarType dtype) {
  const at::Tensor x = at::sin(at::arange(7 * 131, at::kFloat) + 1000 * rank).view({7, 131}).to(dtype);
  const at::Tensor experts = at::arange(7, at::kInt).unsqueeze(1).remainder(kExperts);
  return {x, (x * 3 + 0.5).to(dtype), experts.contiguous(), at::ones({7, 1})};
}

/// The rounding by its definition: to multiples of a block's largest magnitude / 127, then to bfloat16.
at::Tensor rounded_to_int8(const at::Tensor& x) {
  at::Tensor out = x.to(at::kFloat).clone();
  for (std::int64_t begin = 0; begin < x.size(1); begin += 128) {
    at::Tensor block = out.slice(1, begin, begin + 128);
    const at::Tensor most = block.abs().amax(1, true);
    block.copy_(at::round(block * (127 * (1 / most))) * (most / 127));
  }
  return out.to(at::kBFloat16).to(x.scalar_type());
}

void expect_rounded_tokens(Communicator* group, Gathering gathering, at::ScalarType dtype) {
  PhaseTimer timer;
  ExpertExchange exchange(group, kExperts, timer, MemoryKind::kPrivate, TokenFormat::kInt8, gathering);
  static_cast<void>(exchange.begin({7}));
  const int rank = group == nullptr ? 0 : group->rank(), ranks = group == nullptr ? 1 : group->size();
  const std::int64_t end = exchange.first_expert() + equal_part(kExperts, ranks, rank).count();
  for (int pass = 0; pass < 2; ++pass) {
    const ops::ExpertTokens own = odd_tokens(rank, dtype);
    exchange.begin_dispatch(own);
    const auto [here, is_own] = exchange.arriving();
    const at::Tensor own_here = here.x.slice(0, is_own.begin, is_own.end).clone();
    exchange.finish_dispatch();
    EXPECT_TRUE(own_here.equal(here.x.slice(0, is_own.begin, is_own.end))) << "own tokens are there at once";
    std::vector<at::Tensor> x, d_out;
    for (int from = 0; from < ranks; ++from) {
      const ops::ExpertTokens sent = odd_tokens(from, dtype);
      for (std::int64_t token = 0; token < 7; ++token) {
        const auto expert = sent.experts[token].item<std::int64_t>();
        if (gathering == Gathering::kNever && (expert < exchange.first_expert() || expert >= end)) continue;
        x.push_back(sent.x[token]);
        d_out.push_back(sent.d_out[token]);
      }
    }
    ASSERT_EQ(here.x.size(0), std::ssize(x));
    if (x.empty()) {
      static_cast<void>(exchange.combine(here.x.to(at::kFloat), here.weights));
      continue;
    }
    EXPECT_TRUE(here.x.equal(rounded_to_int8(at::stack(x))));
    EXPECT_TRUE(here.d_out.equal(rounded_to_int8(at::stack(d_out))));
    static_cast<void>(exchange.combine(here.x.to(at::kFloat), here.weights));
  }
}

TEST(ExpertExchange, rounds_every_token_to_int8_whether_it_travels_or_not) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const Gathering gathering : {Gathering::kAlways, Gathering::kNever})
      expect_rounded_tokens(&test::test_world(), gathering, dtype);
    expect_rounded_tokens(nullptr, Gathering::kAlways, dtype);
  }
}

TEST(ExpertExchange, int8_sends_codes_and_scales_and_returns_the_type_of_the_tokens) {
  Communicator& comm = test::test_world();
  PhaseTimer timer;
  ExpertExchange exchange(&comm, kExperts, timer, MemoryKind::kPrivate, TokenFormat::kInt8,
                          Gathering::kAlways);
  ASSERT_EQ(exchange.begin({7}), 1U);
  const std::int64_t before = comm.traffic().sent_bytes, others = comm.size() - 1;
  exchange.begin_dispatch(odd_tokens(comm.rank(), at::kBFloat16));
  const ops::ExpertTokens here = exchange.arriving().tokens;
  exchange.finish_dispatch();
  const std::int64_t coded = 2 * 4 + 132, choices = 2 * 4;
  EXPECT_EQ(comm.traffic().sent_bytes - before, others * 7 * (2 * coded + choices));
  EXPECT_EQ(exchange.combine(here.x.to(at::kFloat)).scalar_type(), at::kBFloat16);
  EXPECT_EQ(comm.traffic().sent_bytes - before, others * 7 * (2 * coded + choices + 2 * 131));
}

TEST(ExpertExchange, a_token_that_is_not_finite_stays_so_in_int8) {
  PhaseTimer timer;
  ExpertExchange exchange(nullptr, kExperts, timer, MemoryKind::kPrivate, TokenFormat::kInt8);
  static_cast<void>(exchange.begin({7}));
  ops::ExpertTokens own = odd_tokens(0, at::kBFloat16);
  own.x[3][130] = std::numeric_limits<float>::infinity();
  exchange.begin_dispatch(own);
  const at::Tensor x = exchange.arriving().tokens.x;
  exchange.finish_dispatch();
  EXPECT_TRUE(x[3].slice(0, 128).isnan().all().item<bool>());
  EXPECT_EQ(x.isnan().sum().item<std::int64_t>(), 3);
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
