#include "comm/staged_communicator.hpp"

#include "base/error.hpp"
#include "base/range.hpp"
#include "device/copy.hpp"
#include "device/memory.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

namespace sluice {
namespace {

using Floats = std::vector<float>;

std::int64_t bytes_of(std::int64_t floats) { return floats * std::int64_t{sizeof(float)}; }

/// Numbers on the device.
class OnDevice {
 public:
  explicit OnDevice(const Floats& values)
      : block_(allocate(MemoryKind::kDevice, bytes_of(std::ssize(values)) + 1, "a test")),
        count_(std::ssize(values)) {
    copy_bytes(block_.data(), values.data(), bytes_of(count_));
  }
  [[nodiscard]] float* data() const { return reinterpret_cast<float*>(block_.data()); }
  [[nodiscard]] Floats values() const {
    Floats out(static_cast<std::size_t>(count_));
    copy_bytes(out.data(), block_.data(), bytes_of(count_));
    return out;
  }

 private:
  MemoryBlock block_;
  std::int64_t count_;
};

/// Differs from rank to rank and from place to place.
Floats numbers(std::int64_t count) {
  Floats out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), static_cast<float>(1000 * test::test_world().rank()) + 0.25F);
  return out;
}

/// Rank r's share: r + `more`, and none of the second rank.
std::vector<std::int64_t> uneven_counts(std::int64_t more) {
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < test::test_world().size(); ++rank) counts.push_back(rank == 1 ? 0 : rank + more);
  return counts;
}

std::size_t own() { return static_cast<std::size_t>(test::test_world().rank()); }

/// `call(communicator, in, out)` from main memory over MPI and from the device over the staged one; both
/// results must be the same.
void expect_same(std::int64_t in_count, std::int64_t out_count,
                 const std::function<Work(Communicator&, const float*, float*)>& call) {
  const Floats in = numbers(in_count);
  Floats expected(static_cast<std::size_t>(out_count), -1);
  const OnDevice in_there(in), out_there(expected);
  StagedCommunicator staging(test::test_world());
  Communicator& staged = staging;
  call(test::test_world(), in.data(), expected.data()).wait();
  Work work = call(staged, in_there.data(), out_there.data());
  work.wait();
  EXPECT_TRUE(work.test());
  EXPECT_EQ(out_there.values(), expected);
}

TEST(StagedCommunicator, gathers_from_and_to_the_device) {
  const std::vector<std::int64_t> bytes = times(uneven_counts(3), sizeof(float));
  expect_same(bytes[own()] / 4, sum(bytes) / 4, [&](Communicator& comm, const float* in, float* out) {
    return comm.all_gather(in, out, bytes);
  });
}

TEST(StagedCommunicator, has_its_own_part_in_place_before_others_arrive) {
  const std::vector<std::int64_t> counts = uneven_counts(3), bytes = times(counts, sizeof(float));
  const Floats mine = numbers(counts[own()]);
  const OnDevice in(mine), out(Floats(static_cast<std::size_t>(sum(counts)), -1));
  StagedCommunicator staging(test::test_world());
  Communicator& staged = staging;
  const auto own_part = [&] {
    Floats part(mine.size());
    copy_bytes(part.data(), out.data() + sum(std::span(counts).first(own())), bytes[own()]);
    return part;
  };
  Work gather = staged.all_gather(in.data(), out.data(), bytes);
  EXPECT_EQ(own_part(), mine);
  gather.wait();
  EXPECT_EQ(own_part(), mine);
}

TEST(StagedCommunicator, gathers_in_place) {
  const std::vector<std::int64_t> counts = uneven_counts(3);
  const std::int64_t begin = sum(std::span(counts).first(own()));
  Floats values(static_cast<std::size_t>(sum(counts)), -1);
  std::ranges::copy(numbers(counts[own()]), values.begin() + begin);
  const OnDevice there(values);
  StagedCommunicator staging(test::test_world());
  Communicator& staged = staging;
  const std::vector<std::int64_t> bytes = times(counts, sizeof(float));
  test::test_world().all_gather(values.data() + begin, values.data(), bytes).wait();
  staged.all_gather(there.data() + begin, there.data(), bytes).wait();
  EXPECT_EQ(there.values(), values);
}

TEST(StagedCommunicator, sums_what_lies_on_the_device) {
  const std::vector<std::int64_t> counts = uneven_counts(2);
  expect_same(sum(counts), counts[own()], [&](Communicator& comm, const float* in, float* out) {
    return comm.reduce_scatter_sum(in, out, counts);
  });
}

TEST(StagedCommunicator, sends_uneven_parts_to_all) {
  // Rank s sends s + r + 1 numbers to rank r.
  const int ranks = test::test_world().size();
  std::vector<std::int64_t> bytes;
  for (int rank = 0; rank < ranks; ++rank) bytes.push_back(bytes_of(test::test_world().rank() + rank + 1));
  expect_same(sum(bytes) / 4, sum(bytes) / 4, [&](Communicator& comm, const float* in, float* out) {
    return comm.all_to_all(in, bytes, out, bytes);
  });
}

TEST(StagedCommunicator, broadcasts_and_passes_on) {
  const int ranks = test::test_world().size(), rank = test::test_world().rank();
  StagedCommunicator staging(test::test_world());
  Communicator& staged = staging;
  const OnDevice values(numbers(5)), received(numbers(5));
  staged.broadcast(values.data(), bytes_of(5), ranks - 1).wait();
  Work receive = staged.receive(received.data(), bytes_of(5), (rank + ranks - 1) % ranks, 7);
  staged.send(values.data(), bytes_of(5), (rank + 1) % ranks, 7).wait();
  receive.wait();
  Floats expected(5);
  std::iota(expected.begin(), expected.end(), static_cast<float>(1000 * (ranks - 1)) + 0.25F);
  EXPECT_EQ(values.values(), expected);
  EXPECT_EQ(received.values(), expected);
}

TEST(StagedCommunicator, a_message_from_another_thread_is_an_error) {
  std::thread([] {
    const std::int64_t one = 1;
    EXPECT_THROW(static_cast<void>(test::test_world().send(&one, sizeof one, 0, 7)), Error);
  }).join();
}

}  // namespace
}  // namespace sluice
