// Every call of the interface, with whole messages and with messages cut into pieces of 100 bytes.
#include "base/clock.hpp"
#include "comm/communicator.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace sluice {
namespace {

using Counts = std::vector<std::int64_t>;

constexpr std::int64_t kWhole = 1 << 30;
constexpr std::int64_t kCut = 100;

std::int64_t sum_of(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::int64_t offset_of(const Counts& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
}

/// A byte that differs between senders, receivers and positions.
unsigned char pattern(int from, int to, std::int64_t index) {
  return static_cast<unsigned char>(from * 89 + to * 31 + index * 7 + 1);
}

class MpiCommunicatorTest : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    comm_ = test::mpi_environment().make_world(GetParam());
    comm_->set_deadline("test", 20);
  }
  [[nodiscard]] std::size_t self() const { return static_cast<std::size_t>(comm_->rank()); }
  /// The first size() of these.
  [[nodiscard]] Counts per_rank(Counts counts) const {
    counts.resize(static_cast<std::size_t>(comm_->size()));
    return counts;
  }
  /// Elements of which some rank's part goes through staging in many pieces.
  [[nodiscard]] Counts many_pieces() const {
    return per_rank(GetParam() == kWhole ? Counts{300'001, 5, 450'000} : Counts{140'001, 5, 150'000});
  }
  std::unique_ptr<Communicator> comm_;
};

INSTANTIATE_TEST_SUITE_P(messages, MpiCommunicatorTest, testing::Values(kWhole, kCut),
                         [](const auto& param_info) {
                           return std::string(param_info.param == kWhole ? "whole" : "cut");
                         });

TEST_P(MpiCommunicatorTest, barrier_holds_until_all_have_come) {
  // Each rank counts the others' arrivals before and after.
  std::vector<std::int64_t> arrived{1};
  comm_->barrier();
  comm_->all_reduce_sum(arrived);
  comm_->barrier();
  EXPECT_EQ(arrived[0], comm_->size());
}

TEST_P(MpiCommunicatorTest, messages_with_equal_tags_arrive_in_order) {
  const int to = (comm_->rank() + 1) % comm_->size();
  const int from = (comm_->rank() + comm_->size() - 1) % comm_->size();
  const Counts lengths{1000, 0, 1, 100, 101};
  std::vector<std::vector<unsigned char>> sent;
  std::vector<std::vector<unsigned char>> received;
  std::vector<Work> works;
  for (const std::int64_t length : lengths) {
    const auto bytes = static_cast<std::size_t>(length);
    works.push_back(comm_->receive(received.emplace_back(bytes).data(), length, from, 3));
    sent.emplace_back(bytes, static_cast<unsigned char>(comm_->rank() * 10 + static_cast<int>(sent.size())));
  }
  for (const auto& message : sent) works.push_back(comm_->send(message.data(), std::ssize(message), to, 3));
  for (Work& work : works) work.wait();
  for (std::size_t i = 0; i < lengths.size(); ++i)
    EXPECT_EQ(received[i],
              std::vector<unsigned char>(static_cast<std::size_t>(lengths[i]),
                                         static_cast<unsigned char>(from * 10 + static_cast<int>(i))));
}

TEST_P(MpiCommunicatorTest, broadcast_reaches_every_rank_from_any_root) {
  for (int root = 0; root < comm_->size(); ++root) {
    for (const std::int64_t length : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1234}}) {
      std::vector<unsigned char> data(static_cast<std::size_t>(length), 0);
      if (comm_->rank() == root) std::fill(data.begin(), data.end(), static_cast<unsigned char>(root + 7));
      comm_->broadcast(data.data(), length, root).wait();
      EXPECT_TRUE(std::all_of(data.begin(), data.end(), [&](int byte) { return byte == root + 7; }));
    }
  }
}

void expect_gathered(Communicator& comm, const Counts& counts, bool in_place) {
  const std::int64_t own_bytes = counts[static_cast<std::size_t>(comm.rank())];
  std::vector<unsigned char> out(static_cast<std::size_t>(sum_of(counts)), 0);
  std::vector<unsigned char> own(static_cast<std::size_t>(own_bytes));
  unsigned char* in = in_place ? out.data() + offset_of(counts, comm.rank()) : own.data();
  for (std::int64_t i = 0; i < own_bytes; ++i) in[i] = pattern(comm.rank(), 0, i);
  comm.all_gather(in, out.data(), counts).wait();

  auto at = out.begin();
  for (int rank = 0; rank < comm.size(); ++rank) {
    for (std::int64_t i = 0; i < counts[static_cast<std::size_t>(rank)]; ++i)
      ASSERT_EQ(*at++, pattern(rank, 0, i));
  }
}

TEST_P(MpiCommunicatorTest, all_gather_joins_even_uneven_and_empty_parts) {
  for (const Counts& counts :
       {Counts{500, 500, 500}, Counts{1000, 1, 250}, Counts{0, 700, 0}, Counts{0, 0, 0}}) {
    expect_gathered(*comm_, per_rank(counts), false);
    expect_gathered(*comm_, per_rank(counts), true);
  }
}

TEST_P(MpiCommunicatorTest, all_gathers_may_overlap_and_finish_in_any_order) {
  const Counts counts = per_rank({300, 40, 5});
  std::vector<std::vector<int>> outs(4, std::vector<int>(static_cast<std::size_t>(sum_of(counts))));
  const std::vector<int> in(static_cast<std::size_t>(counts[self()]), comm_->rank());
  Counts bytes = counts;
  for (std::int64_t& count : bytes) count *= static_cast<std::int64_t>(sizeof(int));
  std::vector<Work> works;
  for (auto& out : outs) works.push_back(comm_->all_gather(in.data(), out.data(), bytes));
  std::for_each(works.rbegin(), works.rend(), [](Work& work) { work.wait(); });
  for (const auto& out : outs) {
    for (int rank = 0; rank < comm_->size(); ++rank)
      EXPECT_EQ(std::count(out.begin(), out.end(), rank), counts[static_cast<std::size_t>(rank)]);
  }
}

/// Values whose float32 sum depends on the order of the terms.
float term(int rank, std::int64_t index) {
  const auto phase = static_cast<float>(index % 97) + 1;
  return rank == 1 ? -1e7F * phase : 1e7F * phase + 1 / phase;
}

/// A term as it is added.
float sent_term(const Communicator& comm, int rank, std::int64_t index, DType sent) {
  const float exact = term(rank, index);
  return sent == DType::kFloat32 || comm.size() == 1 ? exact : bfloat16_value(bfloat16_bits(exact));
}

void expect_reduced(Communicator& comm, const Counts& counts, bool in_place, DType sent = DType::kFloat32) {
  std::vector<float> in(static_cast<std::size_t>(sum_of(counts)));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = term(comm.rank(), static_cast<std::int64_t>(i));
  const std::int64_t begin = offset_of(counts, comm.rank());
  const std::int64_t count = counts[static_cast<std::size_t>(comm.rank())];
  std::vector<float> own(static_cast<std::size_t>(count));
  float* out = in_place ? in.data() + begin : own.data();
  const std::int64_t before = comm.traffic().sent_bytes;
  comm.reduce_scatter_sum(in.data(), out, counts, nullptr, sent).wait();
  EXPECT_EQ(comm.traffic().sent_bytes - before, (sum_of(counts) - count) * size_of(sent));
  for (std::int64_t i = 0; i < count; ++i) {
    float expected = sent_term(comm, 0, begin + i, sent);
    for (int rank = 1; rank < comm.size(); ++rank) expected += sent_term(comm, rank, begin + i, sent);
    ASSERT_EQ(out[i], expected) << "element " << i;
  }
}

TEST_P(MpiCommunicatorTest, reduce_scatter_sums_in_rank_order) {
  for (const Counts& counts :
       {Counts{100, 100, 100}, Counts{1, 2500, 7}, Counts{0, 0, 90}, Counts{0, 0, 0}}) {
    expect_reduced(*comm_, per_rank(counts), false);
    expect_reduced(*comm_, per_rank(counts), true);
  }
}

TEST_P(MpiCommunicatorTest, reduce_scatter_rounds_every_ranks_part_once_where_bfloat16_is_sent) {
  for (const Counts& counts : {Counts{100, 100, 100}, Counts{1, 2500, 7}, Counts{0, 0, 90}})
    for (const bool in_place : {false, true})
      expect_reduced(*comm_, per_rank(counts), in_place, DType::kBFloat16);
}

TEST_P(MpiCommunicatorTest, reduce_scatter_goes_through_many_pieces_of_staging) {
  for (const DType sent : {DType::kFloat32, DType::kBFloat16})
    expect_reduced(*comm_, many_pieces(), true, sent);
}

TEST_P(MpiCommunicatorTest, counts_messages_empty_ones_too) {
  const std::int64_t before = comm_->traffic().sent_messages, others = comm_->size() - 1;
  comm_->barrier();
  EXPECT_EQ(comm_->traffic().sent_messages - before, others);
  double number = 1;
  comm_->all_reduce_sum(std::span(&number, 1));
  EXPECT_EQ(comm_->traffic().sent_messages - before, 2 * others);
}

TEST_P(MpiCommunicatorTest, reduce_scatter_goes_on_while_others_are_waited_for) {
  const Counts counts = many_pieces();
  const std::vector<float> ones(static_cast<std::size_t>(sum_of(counts)), 1.0F);
  std::vector<float> out(static_cast<std::size_t>(counts[static_cast<std::size_t>(comm_->rank())]));
  Work work = comm_->reduce_scatter_sum(ones.data(), out.data(), counts);
  const std::unique_ptr<Communicator> part = comm_->split(0, comm_->rank());
  // Nobody polls it but those who wait here. Ranks without a part may still have to send.
  const auto sums = static_cast<float>(comm_->size());
  const auto done = [&] { return std::ranges::count(out, sums) == std::ssize(out); };
  std::int64_t missing = 1;
  for (int waits = 0; missing > 0; ++waits) {
    ASSERT_LT(waits, 20'000);
    missing = done() ? 0 : 1;
    part->all_reduce_sum(std::span(&missing, 1));
  }
  work.wait();
  EXPECT_TRUE(done());
}

TEST_P(MpiCommunicatorTest, reduce_scatter_goes_on_when_a_computing_rank_advances_it) {
  const Counts counts = many_pieces();
  const std::vector<float> ones(static_cast<std::size_t>(sum_of(counts)), 1.0F);
  std::vector<float> out(static_cast<std::size_t>(counts[static_cast<std::size_t>(comm_->rank())]));
  const std::unique_ptr<Communicator> part = comm_->split(0, comm_->rank());
  Work work = comm_->reduce_scatter_sum(ones.data(), out.data(), counts);
  const auto done = [&] {
    return std::ranges::count(out, static_cast<float>(comm_->size())) == std::ssize(out);
  };
  const Stopwatch watch;
  while (!done() && watch.seconds() < 20) part->advance();
  EXPECT_TRUE(done());
  work.wait();
}

TEST_P(MpiCommunicatorTest, large_messages_arrive_when_a_computing_rank_advances_them) {
  const std::int64_t unit = GetParam() == kWhole ? 1 << 20 : 10'000;
  const Counts counts = per_rank({3 * unit, 2 * unit, unit});
  const std::vector<unsigned char> own(static_cast<std::size_t>(counts[self()]), 1);
  std::vector<unsigned char> all(static_cast<std::size_t>(sum_of(counts)));
  Work work = comm_->all_gather(own.data(), all.data(), counts);
  const auto done = [&] { return std::ranges::count(all, 1) == std::ssize(all); };
  const Stopwatch watch;
  while (!done() && watch.seconds() < 20) comm_->advance();
  EXPECT_TRUE(done());
  work.wait();
}

TEST_P(MpiCommunicatorTest, all_reduce_gives_every_rank_the_same_bits) {
  const auto value = [](int rank, std::int64_t index) { return 1e10 * double{term(rank, index)} + 0.1; };
  std::vector<double> values(70'000);
  for (std::int64_t i = 0; i < std::ssize(values); ++i)
    values[static_cast<std::size_t>(i)] = value(comm_->rank(), i);
  comm_->all_reduce_sum(std::span<double>(values));
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    double expected = value(0, i);
    for (int rank = 1; rank < comm_->size(); ++rank) expected += value(rank, i);
    ASSERT_EQ(values[static_cast<std::size_t>(i)], expected);
  }
}

TEST_P(MpiCommunicatorTest, all_reduce_knows_doubles_integers_and_the_largest) {
  const std::int64_t size = comm_->size();
  std::vector<double> doubles{0.5, static_cast<double>(comm_->rank())};
  comm_->all_reduce_sum(std::span<double>(doubles));
  EXPECT_EQ(doubles, (std::vector<double>{0.5 * static_cast<double>(size),
                                          static_cast<double>(size * (size - 1)) / 2}));

  std::vector<std::int64_t> integers{1, std::int64_t{1} << 40};
  comm_->all_reduce_sum(std::span<std::int64_t>(integers));
  EXPECT_EQ(integers, (Counts{size, size << 40}));

  std::vector<std::int64_t> largest{comm_->rank(), -comm_->rank()};
  comm_->all_reduce_max(largest);
  EXPECT_EQ(largest, (Counts{size - 1, 0}));

  comm_->all_reduce_sum(std::span<double>());
}

TEST_P(MpiCommunicatorTest, all_reduce_sends_each_number_twice_at_most) {
  const std::int64_t size = comm_->size();
  std::vector<double> many(600, 1);
  comm_->all_reduce_sum(std::span<double>(many));
  EXPECT_EQ(many, std::vector<double>(600, static_cast<double>(size)));
  EXPECT_EQ(comm_->traffic().sent_bytes, 2 * 600 * 8 * (size - 1) / size);
  double one = 1;
  comm_->all_reduce_sum(std::span(&one, 1));
  EXPECT_EQ(comm_->traffic().sent_bytes, 2 * 600 * 8 * (size - 1) / size + 8 * (size - 1));
}

TEST_P(MpiCommunicatorTest, all_to_all_delivers_uneven_and_empty_parts) {
  const auto bytes_between = [](int from, int to) {
    return static_cast<std::int64_t>((from * 170 + to * 60) % 400);
  };
  Counts send_bytes;
  Counts receive_bytes;
  std::vector<unsigned char> in;
  for (int peer = 0; peer < comm_->size(); ++peer) {
    send_bytes.push_back(bytes_between(comm_->rank(), peer));
    receive_bytes.push_back(bytes_between(peer, comm_->rank()));
    for (std::int64_t i = 0; i < send_bytes.back(); ++i) in.push_back(pattern(comm_->rank(), peer, i));
  }
  std::vector<unsigned char> out(static_cast<std::size_t>(sum_of(receive_bytes)));
  comm_->all_to_all(in.data(), send_bytes, out.data(), receive_bytes).wait();
  auto at = out.begin();
  for (int peer = 0; peer < comm_->size(); ++peer) {
    for (std::int64_t i = 0; i < bytes_between(peer, comm_->rank()); ++i)
      ASSERT_EQ(*at++, pattern(peer, comm_->rank(), i));
  }
}

TEST_P(MpiCommunicatorTest, texts_of_any_length_are_gathered_and_broadcast) {
  const std::vector<std::string> texts{"", std::string(500, 'x'), "z"};
  const std::vector<std::string> all = comm_->all_gather_text(texts[self()]);
  EXPECT_EQ(all, std::vector<std::string>(texts.begin(), texts.begin() + comm_->size()));
  for (int root = 0; root < comm_->size(); ++root) {
    const std::string& text = texts[static_cast<std::size_t>(root)];
    EXPECT_EQ(comm_->broadcast_text(comm_->rank() == root ? text : "not this", root), text);
  }
}

TEST_P(MpiCommunicatorTest, split_orders_ranks_by_key_within_a_color) {
  const std::unique_ptr<Communicator> reversed = comm_->split(0, -comm_->rank());
  EXPECT_EQ(reversed->size(), comm_->size());
  EXPECT_EQ(reversed->rank(), comm_->size() - 1 - comm_->rank());
  const std::unique_ptr<Communicator> alone = comm_->split(comm_->rank(), 0);
  EXPECT_EQ(alone->size(), 1);
  std::vector<std::int64_t> value{5};
  alone->all_reduce_sum(value);
  EXPECT_EQ(value[0], 5);
  EXPECT_EQ(reversed->all_gather_text(std::to_string(comm_->rank())).front(),
            std::to_string(comm_->size() - 1));
}

TEST_P(MpiCommunicatorTest, traffic_counts_payload_bytes_of_other_ranks) {
  const Counts bytes = per_rank({10, 20, 30});
  std::vector<unsigned char> out(static_cast<std::size_t>(sum_of(bytes)));
  comm_->all_gather(out.data() + offset_of(bytes, comm_->rank()), out.data(), bytes).wait();
  EXPECT_EQ(comm_->traffic().sent_bytes, bytes[self()] * (comm_->size() - 1));
  EXPECT_EQ(comm_->traffic().received_bytes, sum_of(bytes) - bytes[self()]);
}

}  // namespace
}  // namespace sluice
