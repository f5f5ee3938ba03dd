// Every collective of the communicator over NCCL against the one over MPI, with the same values.
#include "comm/communicator.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "device/devices.hpp"
#include "nccl_stand_in/device_memory.hpp"
#include "support/expect_error.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {
namespace {

using Counts = std::vector<std::int64_t>;
using Bytes = std::vector<unsigned char>;
using Floats = std::vector<float>;
using test::OnDevice;

std::int64_t sum_of(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// Differs between ranks and positions; sums of it are exact in float32, in any order.
template <class T>
std::vector<T> values(int rank, std::int64_t count) {
  std::vector<T> out(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    out[static_cast<std::size_t>(i)] = static_cast<T>((rank * 89 + i * 7 + 1) % 251);
  return out;
}

class NcclStandIn : public testing::Test {
 protected:
  void SetUp() override {
    use_gpu(mpi_.rank());
    nccl_ = make_nccl_communicator(mpi_);
    stream_.emplace();
  }
  /// The first size() of these.
  [[nodiscard]] Counts per_rank(Counts counts) const {
    counts.resize(static_cast<std::size_t>(mpi_.size()));
    return counts;
  }
  [[nodiscard]] std::int64_t own(const Counts& counts) const {
    return counts[static_cast<std::size_t>(mpi_.rank())];
  }
  [[nodiscard]] std::int64_t before_own(const Counts& counts) const {
    return std::accumulate(counts.begin(), counts.begin() + mpi_.rank(), std::int64_t{0});
  }

  Communicator& mpi_ = test::test_world();
  std::unique_ptr<Communicator> nccl_;
  std::optional<DeviceStream> stream_;
};

/// Even and uneven, empty, and more than any buffer of the transport holds.
const std::vector<Counts> kCounts{
    {500, 500, 500, 500}, {1000, 1, 250, 3}, {0, 700, 0, 9}, {0, 0, 0, 0}, {90'000, 5, 70'001, 0}};

TEST_F(NcclStandIn, all_gather_is_that_of_mpi) {
  for (const Counts& all : kCounts) {
    const Counts counts = per_rank(all);
    const Bytes mine = values<unsigned char>(mpi_.rank(), own(counts));
    Bytes expected(static_cast<std::size_t>(sum_of(counts)));
    mpi_.all_gather(mine.data(), expected.data(), counts).wait();

    const OnDevice<unsigned char> in(*stream_, mine), out(*stream_, Bytes(expected.size()));
    nccl_->all_gather(in.data(), out.data(), counts, stream_->handle()).wait();
    EXPECT_EQ(out.values(), expected);

    Bytes placed(expected.size());
    std::copy(mine.begin(), mine.end(), placed.begin() + before_own(counts));
    const OnDevice<unsigned char> both(*stream_, placed);
    nccl_->all_gather(both.data() + before_own(counts), both.data(), counts, stream_->handle()).wait();
    EXPECT_EQ(both.values(), expected) << "in place";
  }
}

TEST_F(NcclStandIn, reduce_scatter_is_that_of_mpi) {
  for (const Counts& all : kCounts) {
    const Counts counts = per_rank(all);
    Floats terms = values<float>(mpi_.rank(), sum_of(counts));
    const OnDevice<float> in(*stream_, terms), out(*stream_, Floats(static_cast<std::size_t>(own(counts))));
    Floats expected(static_cast<std::size_t>(own(counts)));
    mpi_.reduce_scatter_sum(terms.data(), expected.data(), counts).wait();

    nccl_->reduce_scatter_sum(in.data(), out.data(), counts, stream_->handle()).wait();
    EXPECT_EQ(out.values(), expected);
    nccl_->reduce_scatter_sum(in.data(), in.data() + before_own(counts), counts, stream_->handle()).wait();
    const Floats all_after = in.values();
    const auto place = all_after.begin() + before_own(counts);
    EXPECT_EQ(Floats(place, place + own(counts)), expected) << "in place";
  }
}

TEST_F(NcclStandIn, sums_are_not_in_rank_order_and_have_the_same_bits_each_time) {
  const Counts counts(static_cast<std::size_t>(mpi_.size()), 1000);
  Floats terms = values<float>(mpi_.rank(), sum_of(counts));
  for (float& term : terms) term = mpi_.rank() == 1 ? -1e7F * term : 1e7F * term + 1 / (1 + term);
  const OnDevice<float> in(*stream_, terms), out(*stream_, Floats(1000));
  std::optional<Floats> first;
  for (int turn = 0; turn < 3; ++turn) {
    nccl_->reduce_scatter_sum(in.data(), out.data(), counts, stream_->handle()).wait();
    if (!first) first = out.values();
    EXPECT_EQ(out.values(), *first);
  }
}

TEST_F(NcclStandIn, all_to_all_is_that_of_mpi) {
  const auto bytes_between = [](int from, int to, int scale) {
    return static_cast<std::int64_t>((from * 170 + to * 60) % 400 * scale);
  };
  for (const int scale : {0, 1, 300}) {
    Counts sent, received;
    for (int peer = 0; peer < mpi_.size(); ++peer) {
      sent.push_back(bytes_between(mpi_.rank(), peer, scale));
      received.push_back(bytes_between(peer, mpi_.rank(), scale));
    }
    const Bytes mine = values<unsigned char>(mpi_.rank(), sum_of(sent));
    Bytes expected(static_cast<std::size_t>(sum_of(received)));
    mpi_.all_to_all(mine.data(), sent, expected.data(), received).wait();

    const OnDevice<unsigned char> in(*stream_, mine), out(*stream_, Bytes(expected.size()));
    nccl_->all_to_all(in.data(), sent, out.data(), received, stream_->handle()).wait();
    EXPECT_EQ(out.values(), expected);
  }
}

TEST_F(NcclStandIn, broadcast_is_that_of_mpi_from_any_root) {
  for (int root = 0; root < mpi_.size(); ++root) {
    for (const std::int64_t length : {0, 1, 123'456}) {
      Bytes data = values<unsigned char>(mpi_.rank(), length);
      const OnDevice<unsigned char> there(*stream_, data);
      mpi_.broadcast(data.data(), length, root).wait();
      nccl_->broadcast(there.data(), length, root, stream_->handle()).wait();
      EXPECT_EQ(there.values(), data);
    }
  }
}

TEST_F(NcclStandIn, messages_between_two_ranks_arrive_in_order) {
  if (mpi_.size() == 1) return;  // nobody to send to
  const int to = (mpi_.rank() + 1) % mpi_.size();
  const int from = (mpi_.rank() + mpi_.size() - 1) % mpi_.size();
  // Both ways at once would be a group; even ranks send first, and with an odd number of ranks rank 0 does,
  // too.
  for (const std::int64_t length : {1000, 0, 1, 65'000}) {
    const OnDevice<unsigned char> out(*stream_, values<unsigned char>(mpi_.rank(), length));
    const OnDevice<unsigned char> in(*stream_, Bytes(static_cast<std::size_t>(length)));
    const auto send = [&] { nccl_->send(out.data(), length, to, 0, stream_->handle()).wait(); };
    const auto receive = [&] { nccl_->receive(in.data(), length, from, 0, stream_->handle()).wait(); };
    if (mpi_.rank() % 2 == 0) send();
    receive();
    if (mpi_.rank() % 2 != 0) send();
    EXPECT_EQ(in.values(), values<unsigned char>(from, length));
  }
}

TEST_F(NcclStandIn, sums_and_texts_of_the_host_go_over_mpi) {
  std::vector<std::int64_t> numbers{mpi_.rank(), 1};
  nccl_->all_reduce_sum(numbers);
  EXPECT_EQ(numbers, (Counts{mpi_.size() * (mpi_.size() - 1) / 2, mpi_.size()}));
  numbers = {mpi_.rank()};
  nccl_->all_reduce_max(numbers);
  EXPECT_EQ(numbers.front(), mpi_.size() - 1);
  std::vector<double> reals{0.5};
  nccl_->all_reduce_sum(std::span<double>(reals));
  EXPECT_EQ(reals.front(), 0.5 * mpi_.size());
  EXPECT_EQ(nccl_->all_gather_text(std::to_string(mpi_.rank())).back(), std::to_string(mpi_.size() - 1));
  EXPECT_EQ(nccl_->broadcast_text("from 0", 0), "from 0");
  nccl_->barrier();
}

TEST_F(NcclStandIn, what_a_stream_is_given_next_begins_after_what_it_was_ordered_behind) {
  const Counts counts(static_cast<std::size_t>(mpi_.size()), 50'000);
  const OnDevice<unsigned char> in(*stream_, values<unsigned char>(mpi_.rank(), 50'000));
  const OnDevice<unsigned char> out(*stream_, Bytes(static_cast<std::size_t>(sum_of(counts))));
  Bytes expected;
  for (int rank = 0; rank < mpi_.size(); ++rank) {
    const Bytes part = values<unsigned char>(rank, 50'000);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  DeviceStream other;
  Bytes seen(expected.size());
  Work work = nccl_->all_gather(in.data(), out.data(), counts, stream_->handle());
  work.make_stream_wait(other.handle());
  other.copy(seen.data(), out.data(), std::ssize(seen));
  test::finish(other);
  EXPECT_EQ(seen, expected);
  work.wait();
}

TEST_F(NcclStandIn, what_a_rank_sends_to_itself_is_there_while_others_are_awaited) {
  const Counts counts = per_rank({50'000, 50'000, 3, 70'000});
  const Bytes mine = values<unsigned char>(mpi_.rank(), own(counts));
  const OnDevice<unsigned char> in(*stream_, mine);
  const OnDevice<unsigned char> out(*stream_, Bytes(static_cast<std::size_t>(sum_of(counts))));
  DeviceStream other;
  Bytes seen(mine.size());
  if (mpi_.rank() == 0) mpi_.barrier();  // the others have seen their own parts by then
  Work work = nccl_->all_gather(in.data(), out.data(), counts, stream_->handle());
  work.make_stream_wait_for_own_part(other.handle());
  other.copy(seen.data(), out.data() + before_own(counts), std::ssize(seen));
  test::finish(other);
  EXPECT_EQ(seen, mine);
  if (mpi_.rank() != 0) mpi_.barrier();
  work.wait();
}

TEST_F(NcclStandIn, main_memory_of_the_same_ranks_goes_over_mpi) {
  const std::unique_ptr<Communicator> reversed = nccl_->split(0, -mpi_.rank());
  const Counts counts(static_cast<std::size_t>(mpi_.size()), sizeof(int));
  const int mine = reversed->rank();
  std::vector<int> all(counts.size());
  reversed->host().all_gather(&mine, all.data(), counts).wait();
  std::vector<int> expected(counts.size());
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST_F(NcclStandIn, a_communicator_of_its_own_carries_what_overlaps) {
  if (mpi_.size() == 1) {
    EXPECT_EQ(nccl_->duplicate_for_overlap(), nullptr);
    return;
  }
  const std::unique_ptr<Communicator> second = nccl_->duplicate_for_overlap();
  const Counts counts = per_rank({40'000, 3, 0, 20'000});
  const Bytes mine = values<unsigned char>(mpi_.rank(), own(counts));
  Bytes expected(static_cast<std::size_t>(sum_of(counts)));
  mpi_.all_gather(mine.data(), expected.data(), counts).wait();
  DeviceStream beside;
  const OnDevice<unsigned char> in(*stream_, mine);
  std::vector<std::unique_ptr<OnDevice<unsigned char>>> outs;
  std::vector<Work> works;
  for (int i = 0; i < 6; ++i) {
    outs.push_back(std::make_unique<OnDevice<unsigned char>>(*stream_, Bytes(expected.size())));
    const bool first = i % 2 == 0;
    works.push_back(
        (first ? *nccl_ : *second)
            .all_gather(in.data(), outs.back()->data(), counts, first ? stream_->handle() : beside.handle()));
  }
  for (auto work = works.rbegin(); work != works.rend(); ++work) work->wait();
  for (const auto& out : outs) EXPECT_EQ(out->values(), expected);
}

TEST_F(NcclStandIn, split_orders_ranks_by_key_within_a_color) {
  const std::unique_ptr<Communicator> reversed = nccl_->split(0, -mpi_.rank());
  EXPECT_EQ(reversed->rank(), mpi_.size() - 1 - mpi_.rank());
  const Counts counts(static_cast<std::size_t>(mpi_.size()), 1);
  const OnDevice<unsigned char> in(*stream_, {static_cast<unsigned char>(mpi_.rank())});
  const OnDevice<unsigned char> out(*stream_, Bytes(counts.size()));
  reversed->all_gather(in.data(), out.data(), counts, stream_->handle()).wait();
  EXPECT_EQ(out.values().front(), mpi_.size() - 1);
}

TEST_F(NcclStandIn, traffic_counts_payload_bytes_of_other_ranks) {
  const Counts bytes = per_rank({10, 20, 30, 40});
  const OnDevice<unsigned char> out(*stream_, Bytes(static_cast<std::size_t>(sum_of(bytes))));
  const Traffic before = nccl_->traffic();
  nccl_->all_gather(out.data() + before_own(bytes), out.data(), bytes, stream_->handle()).wait();
  EXPECT_EQ(nccl_->traffic().sent_bytes - before.sent_bytes, own(bytes) * (mpi_.size() - 1));
  EXPECT_EQ(nccl_->traffic().received_bytes - before.received_bytes, sum_of(bytes) - own(bytes));
}

TEST_F(NcclStandIn, a_gpu_for_two_ranks_is_refused_before_nccl_sees_it) {
  if (mpi_.size() == 1) return;
  use_gpu(0);
  test::expect_error(ExitCode::kTooLittle, {"the same CUDA device", "rank"},
                     [&] { static_cast<void>(make_nccl_communicator(mpi_)); });
}

TEST_F(NcclStandIn, the_version_is_told) {
  EXPECT_TRUE(has_nccl());
  EXPECT_THAT(nccl_version_text(), testing::StartsWith("NCCL 2."));
}

}  // namespace
}  // namespace sluice
