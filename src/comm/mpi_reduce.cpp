// The reductions of MpiCommunicator. MPI's own know no bfloat16 and may sum in any order; ours exchange and
// sum in rank order.
#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/round.hpp"
#include "comm/mpi_communicator.hpp"
#include "comm/rank_order.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

namespace sluice {
namespace {

constexpr std::int64_t kStagingBytesPerRank = kMiB;

/// The pieces that one rank's range is cut into.
struct Range {
  std::int64_t begin;
  std::int64_t count;
  [[nodiscard]] std::int64_t piece_length(std::int64_t piece, std::int64_t round) const {
    return std::clamp<std::int64_t>(count - round * piece, 0, piece);
  }
};

std::vector<Range> ranges_of(std::span<const std::int64_t> counts) {
  std::vector<Range> ranges;
  std::int64_t begin = 0;
  for (const std::int64_t count : counts) {
    ranges.push_back({begin, count});
    begin += count;
  }
  return ranges;
}

}  // namespace

std::byte* MpiCommunicator::staging(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  if (staging_.size() < size) staging_.resize(size);
  return staging_.data();
}

void MpiCommunicator::reduce_scatter_sum(const float* in, float* out, std::span<const std::int64_t> counts,
                                         StreamHandle stream) {
  SLUICE_ASSERT(stream == nullptr,
                "the MPI backend moves host memory, but was given an accelerator's stream");
  SLUICE_ASSERT(std::ssize(counts) == size_, "reduce_scatter_sum of {} parts over {} ranks", counts.size(),
                size_);
  const Collective collective = begin(Kind::kReduceScatter);
  const std::vector<Range> ranges = ranges_of(counts);
  const Range own = ranges[static_cast<std::size_t>(rank_)];

  // Two halves of the staging take turns: while one piece is summed the next is on its way.
  constexpr std::int64_t kPiece = kStagingBytesPerRank / 2 / static_cast<std::int64_t>(sizeof(float));
  float* const slots = reinterpret_cast<float*>(staging(size_ * kStagingBytesPerRank));
  const auto slot = [&](std::int64_t round, int from) {
    return slots + ((round % 2) * size_ + from) * kPiece;
  };

  const auto start = [&](std::int64_t round) {
    MpiRequests requests = collective_requests();
    for (int step = 1; step < size_; ++step) {
      const int from = (rank_ + size_ - step) % size_;
      if (const std::int64_t length = own.piece_length(kPiece, round); length > 0)
        receive_counted(requests, slot(round, from), length * std::int64_t{sizeof(float)}, from,
                        collective.tag);
      const int to = (rank_ + step) % size_;
      const Range& range = ranges[static_cast<std::size_t>(to)];
      if (const std::int64_t length = range.piece_length(kPiece, round); length > 0)
        send_counted(requests, in + range.begin + round * kPiece, length * std::int64_t{sizeof(float)}, to,
                     collective.tag);
    }
    return requests;
  };

  const auto sum = [&](std::int64_t round) {
    const std::int64_t offset = round * kPiece;
    std::vector<const float*> parts;
    for (int from = 0; from < size_; ++from)
      parts.push_back(from == rank_ ? in + own.begin + offset : slot(round, from));
    combine_in_rank_order<float>(parts, out + offset, own.piece_length(kPiece, round), std::plus<>());
  };

  const std::int64_t longest = *std::max_element(counts.begin(), counts.end());
  const std::int64_t rounds = divide_up(longest, kPiece);
  std::array<std::optional<MpiRequests>, 2> flight;
  for (std::int64_t round = 0; round < rounds + 1; ++round) {
    if (round < rounds) flight[static_cast<std::size_t>(round % 2)] = start(round);
    if (round == 0) continue;
    wait_for(*flight[static_cast<std::size_t>((round - 1) % 2)], *limit_, collective.operation);
    sum(round - 1);
  }
}

template <class T, class Combine>
void MpiCommunicator::all_reduce(std::span<T> values, Combine combine) {
  const Collective collective = begin(Kind::kAllReduce);
  constexpr std::int64_t kPiece = kStagingBytesPerRank / 4 / static_cast<std::int64_t>(sizeof(T));
  const std::int64_t count = std::ssize(values);
  const std::int64_t piece = std::min(kPiece, count);
  T* const slots = reinterpret_cast<T*>(staging(size_ * piece * std::int64_t{sizeof(T)}));
  std::vector<const T*> parts;
  for (int from = 0; from < size_; ++from) parts.push_back(slots + from * piece);

  for (std::int64_t offset = 0; offset < count; offset += piece) {
    const std::int64_t length = std::min(piece, count - offset);
    const std::int64_t bytes = length * std::int64_t{sizeof(T)};
    T* const own = values.data() + offset;
    parts[static_cast<std::size_t>(rank_)] = own;
    MpiRequests requests = collective_requests();
    for (int step = 1; step < size_; ++step) {
      const int from = (rank_ + size_ - step) % size_;
      receive_counted(requests, slots + from * piece, bytes, from, collective.tag);
      send_counted(requests, own, bytes, (rank_ + step) % size_, collective.tag);
    }
    wait_for(requests, *limit_, collective.operation);
    combine_in_rank_order<T>(parts, own, length, combine);
  }
}

void MpiCommunicator::all_reduce_sum(std::span<double> values, StreamHandle) {
  all_reduce(values, std::plus<>());
}

void MpiCommunicator::all_reduce_sum(std::span<float> values, StreamHandle) {
  all_reduce(values, std::plus<>());
}

void MpiCommunicator::all_reduce_sum(std::span<std::int64_t> values, StreamHandle) {
  all_reduce(values, std::plus<>());
}

void MpiCommunicator::all_reduce_max(std::span<std::int64_t> values, StreamHandle) {
  all_reduce(values, [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
}

}  // namespace sluice
