#include "data/sampler.hpp"

#include "base/error.hpp"
#include "base/random.hpp"
#include "data/permutation.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {

Sampler::Sampler(std::int64_t sequences, DataOrder order, std::uint64_t seed)
    : sequences_(sequences), order_(order), seed_(seed) {
  SLUICE_ASSERT(sequences > 0, "{} sequences", sequences);
}

std::vector<std::int64_t> Sampler::at(std::int64_t begin, std::int64_t end) const {
  std::vector<std::int64_t> sequences;
  sequences.reserve(static_cast<std::size_t>(end - begin));
  for (std::int64_t position = begin; position < end;) {
    const std::int64_t epoch = position / sequences_;
    const std::int64_t epoch_end = std::min(end, (epoch + 1) * sequences_);
    const Permutation permute(sequences_, RandomStream(seed_, fmt::format("epoch {}", epoch)));
    for (; position < epoch_end; ++position) {
      const std::int64_t place = position % sequences_;
      sequences.push_back(order_ == DataOrder::kShuffle ? permute(place) : place);
    }
  }
  return sequences;
}

}  // namespace sluice
