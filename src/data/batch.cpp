#include "data/batch.hpp"

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

}  // namespace sluice
