#include "data/batch.hpp"

#include "data/sampler.hpp"

#include <algorithm>

namespace sluice {

std::int64_t count_targets(const Batch& batch) {
  if (batch.marks.empty()) return batch.sequences * batch.length;
  std::int64_t targets = 0;
  for (std::int64_t row = 0; row < batch.sequences; ++row) {
    const auto first = batch.marks.begin() + row * (batch.length + 1) + 1;
    targets += std::count(first, first + batch.length, TokenMark::kInside);
  }
  return targets;
}

Batch share_of(const Batch& whole, int world, int rank) {
  const SequenceRange share = rank_share(whole.sequences, world, rank);
  const std::int64_t width = whole.length + 1;
  const auto rows = [&](const auto& values) {
    auto out = values;
    if (!values.empty()) out.assign(values.begin() + share.begin * width, values.begin() + share.end * width);
    return out;
  };
  return {share.size(), whole.length, rows(whole.ids), rows(whole.marks), whole.global_targets};
}

}  // namespace sluice
