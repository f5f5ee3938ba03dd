// Reductions of MpiCommunicator. MPI's own have no bfloat16 and may sum in any order; these exchange parts
// and sum in rank order.
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/range.hpp"
#include "base/round.hpp"
#include "comm/mpi/mpi_communicator.hpp"
#include "comm/rank_order.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace sluice {
namespace {

/// Bytes of staging for the parts that arrive from each rank, so that the total does not grow with the number
/// of ranks.
std::int64_t staging_bytes_per_rank(int ranks) {
  constexpr std::int64_t kMin = 16 * kKiB, kMax = kMiB, kTogether = 16 * kMiB;
  return std::clamp(kTogether / ranks, kMin, kMax);
}

/// An element that travels as bfloat16.
struct BFloat16 {
  std::uint16_t bits = 0;

  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  static void round(const float* values, BFloat16* rounded, std::int64_t count) {
    convert_elements(values, DType::kFloat32, rounded, DType::kBFloat16, count);
  }
};

}  // namespace

/// Reduce-scatter in rounds, each with a piece of all ranges. Two rounds are in flight at a time, in two
/// halves of the staging memory: while one is combined, the next one arrives. Elements travel as `Sent`; if that
/// is another type than T, what is sent is staged as well.
template <class T, class Sent, class Combine>
class MpiCommunicator::ReduceScatter final : public Work::Impl, public Pollable {
 public:
  ReduceScatter(MpiCommunicator& comm, const Collective& collective, const T* in, T* out,
                std::span<const std::int64_t> counts, Combine combine)
      : comm_(comm),
        collective_(collective),
        combine_(combine),
        limit_(comm.limit_),
        background_(comm.background_),
        in_(in),
        out_(out),
        ranges_(ranges_of(counts)),
        piece_(staging_bytes_per_rank(comm.size_) / kFlights / std::int64_t{sizeof(T)}),
        rounds_(divide_up(*std::max_element(counts.begin(), counts.end()), piece_)),
        slot_elements_(std::min(piece_, own().count())),
        slots_(make_slots(slot_elements_)),
        sent_elements_(std::min(piece_, *std::max_element(counts.begin(), counts.end()))),
        sent_(kIsRounded ? make_slots(sent_elements_) : nullptr) {
    for (std::int64_t round = 0; round < std::min(rounds_, kFlights); ++round) start(round);
    background_->add(*this);
  }
  ~ReduceScatter() override { background_->remove(*this); }
  ReduceScatter(const ReduceScatter&) = delete;
  ReduceScatter& operator=(const ReduceScatter&) = delete;

  bool test() override {
    for (; combined_ < rounds_; ++combined_) {
      if (!flight(combined_)->test()) return false;
      combine(combined_);
      if (combined_ + kFlights < rounds_) start(combined_ + kFlights);
    }
    return true;
  }
  void wait() override { wait_for(*this, *background_, *limit_, collective_.operation); }
  [[nodiscard]] std::string missing() const override {
    return flights_[static_cast<std::size_t>(combined_ % kFlights)]->missing();
  }

 private:
  /// Elements of a round's piece of one rank's range.
  [[nodiscard]] std::int64_t piece_length(const Range& range, std::int64_t round) const {
    return std::clamp<std::int64_t>(range.count() - round * piece_, 0, piece_);
  }

  static std::vector<Range> ranges_of(std::span<const std::int64_t> counts) {
    std::vector<Range> ranges;
    std::int64_t begin = 0;
    for (const std::int64_t count : counts) {
      ranges.push_back({begin, begin + count});
      begin += count;
    }
    return ranges;
  }

  static constexpr std::int64_t kFlights = 2;
  static constexpr bool kIsRounded = !std::is_same_v<T, Sent>;

  [[nodiscard]] std::unique_ptr<Sent[]> make_slots(std::int64_t elements) const {
    return std::make_unique_for_overwrite<Sent[]>(
        static_cast<std::size_t>(kFlights * comm_.size_ * elements));
  }
  [[nodiscard]] const Range& range(int rank) const { return ranges_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Range& own() const { return range(comm_.rank_); }
  [[nodiscard]] std::optional<MpiRequests>& flight(std::int64_t round) {
    return flights_[static_cast<std::size_t>(round % kFlights)];
  }
  [[nodiscard]] Sent* slot(std::int64_t round, int from) const {
    return slots_.get() + (round % kFlights * comm_.size_ + from) * slot_elements_;
  }

  /// The piece of a round that goes to a rank, or stays here, as it is sent.
  [[nodiscard]] const Sent* piece(std::int64_t round, int to, std::int64_t length) const {
    const T* const values = in_ + range(to).begin + round * piece_;
    if constexpr (kIsRounded) {
      Sent* const rounded = sent_.get() + (round % kFlights * comm_.size_ + to) * sent_elements_;
      Sent::round(values, rounded, length);
      return rounded;
    } else {
      return values;
    }
  }

  void start(std::int64_t round) {
    const int size = comm_.size_, rank = comm_.rank_;
    MpiRequests& requests = flight(round).emplace(comm_.requests_of(collective_));
    for (int step = 1; step < size; ++step) {
      const int from = (rank + size - step) % size;
      if (const std::int64_t length = piece_length(own(), round); length > 0)
        comm_.receive_counted(requests, slot(round, from), length * std::int64_t{sizeof(Sent)}, from,
                              collective_.tag);
      const int to = (rank + step) % size;
      if (const std::int64_t length = piece_length(range(to), round); length > 0)
        comm_.send_counted(requests, piece(round, to, length), length * std::int64_t{sizeof(Sent)}, to,
                           collective_.tag);
    }
  }

  void combine(std::int64_t round) {
    const std::int64_t length = piece_length(own(), round);
    std::vector<const Sent*> parts;
    for (int from = 0; from < comm_.size_; ++from)
      parts.push_back(from == comm_.rank_ ? piece(round, from, length) : slot(round, from));
    combine_in_rank_order<T, Sent>(parts, out_ + round * piece_, length, combine_);
  }

  MpiCommunicator& comm_;
  Collective collective_;
  Combine combine_;
  std::shared_ptr<const WaitLimit> limit_;
  std::shared_ptr<Background> background_;
  const T* in_;
  T* out_;
  std::vector<Range> ranges_;
  std::int64_t piece_, rounds_, slot_elements_;
  std::unique_ptr<Sent[]> slots_;  ///< pieces that arrive
  std::int64_t sent_elements_;     ///< elements of the largest piece that is sent
  /// Pieces that are sent, and this rank's own, if they are rounded; else null.
  std::unique_ptr<Sent[]> sent_;
  std::array<std::optional<MpiRequests>, kFlights> flights_;
  std::int64_t combined_ = 0;  ///< number of rounds that have been combined
};

Work MpiCommunicator::reduce_scatter_sum(const float* in, float* out, std::span<const std::int64_t> counts,
                                         StreamHandle stream, DType sent) {
  SLUICE_ASSERT(stream == nullptr,
                "the MPI backend moves host memory, but was given an accelerator's stream");
  SLUICE_ASSERT(std::ssize(counts) == size_, "reduce_scatter_sum was given {} parts for {} ranks",
                counts.size(), size_);
  const auto start = [&]<class Sent>(Sent) {
    using Sum = ReduceScatter<float, Sent, std::plus<>>;
    return Work(std::make_unique<Sum>(*this, begin(Kind::kReduceScatter), in, out, counts, std::plus<>()));
  };
  return sent == DType::kBFloat16 && size_ > 1 ? start(BFloat16()) : start(float());
}

template <class T, class Combine>
void MpiCommunicator::all_reduce(Kind kind, std::span<T> values, Combine combine) {
  const std::int64_t count = std::ssize(values);
  if (count == 0) return;
  const auto ranks = static_cast<std::size_t>(size_);
  const Collective collective = begin(kind);
  // A rank without a part of the numbers would wait for one rank alone, and could not name others that are missing.
  if (count < size_) {
    const std::vector<std::int64_t> bytes(ranks, count * std::int64_t{sizeof(T)});
    std::vector<T> all(ranks * values.size());
    gather(collective, values.data(), all.data(), bytes).wait();
    std::vector<const T*> parts;
    for (std::size_t from = 0; from < ranks; ++from) parts.push_back(all.data() + from * values.size());
    return combine_in_rank_order<T, T>(parts, values.data(), count, combine);
  }
  std::vector<std::int64_t> counts;
  for (int part = 0; part < size_; ++part) counts.push_back(equal_part(count, size_, part).count());
  T* const own = values.data() + equal_part_begin(count, size_, rank_);
  ReduceScatter<T, T, Combine>(*this, collective, values.data(), own, counts, combine).wait();
  all_gather(own, values.data(), times(counts, sizeof(T)), nullptr).wait();
}

void MpiCommunicator::all_reduce_sum(std::span<double> values, StreamHandle) {
  all_reduce(Kind::kSum, values, std::plus<>());
}

void MpiCommunicator::all_reduce_sum(std::span<std::int64_t> values, StreamHandle) {
  all_reduce(Kind::kIntegerSum, values, std::plus<>());
}

void MpiCommunicator::all_reduce_max(std::span<std::int64_t> values, StreamHandle) {
  all_reduce(Kind::kIntegerMax, values, [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
}

}  // namespace sluice
