#include "data/sampler.hpp"

#include "base/error.hpp"
#include "base/random.hpp"

#include <algorithm>
#include <bit>

namespace sluice {
namespace {

/// A seeded permutation of [0, size) without a table: a Feistel network permutes the next power of four, and
/// values that fall outside are sent through again until they fall inside ("cycle walking", at most four
/// times on average).
class Permutation {
 public:
  Permutation(std::int64_t size, std::uint64_t seed, std::int64_t epoch)
      : size_(static_cast<std::uint64_t>(size)),
        half_bits_(static_cast<int>((std::bit_width(size_ - 1) + 1) / 2)),
        keys_(seed, "epoch " + std::to_string(epoch)) {}

  [[nodiscard]] std::int64_t operator()(std::int64_t position) const {
    std::uint64_t value = static_cast<std::uint64_t>(position);
    do {
      value = scramble(value);
    } while (value >= size_);
    return static_cast<std::int64_t>(value);
  }

 private:
  static constexpr std::uint64_t kRounds = 6;

  [[nodiscard]] std::uint64_t scramble(std::uint64_t value) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed = left ^ (keys_.bits(right * kRounds + round) & mask);
      left = right;
      right = mixed;
    }
    return left << half_bits_ | right;
  }

  std::uint64_t size_;
  int half_bits_;
  RandomStream keys_;
};

}  // namespace

Sampler::Sampler(std::int64_t sequences, std::int64_t batch_sequences, DataOrder order, std::uint64_t seed)
    : sequences_(sequences), batch_sequences_(batch_sequences), order_(order), seed_(seed) {
  SLUICE_ASSERT(sequences > 0 && batch_sequences > 0, "{} sequences in batches of {}", sequences,
                batch_sequences);
}

std::vector<std::int64_t> Sampler::at(std::int64_t begin, std::int64_t end) const {
  std::vector<std::int64_t> sequences;
  sequences.reserve(static_cast<std::size_t>(end - begin));
  for (std::int64_t position = begin; position < end;) {
    const std::int64_t epoch = position / sequences_;
    const std::int64_t epoch_end = std::min(end, (epoch + 1) * sequences_);
    const Permutation permute(sequences_, seed_, epoch);
    for (; position < epoch_end; ++position) {
      const std::int64_t place = position % sequences_;
      sequences.push_back(order_ == DataOrder::kShuffle ? permute(place) : place);
    }
  }
  return sequences;
}

}  // namespace sluice
