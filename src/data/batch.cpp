#include "data/batch.hpp"

#include <algorithm>

namespace sluice {

namespace {

/// Number of tokens with a mark in columns [first, first + length) of each sequence.
std::int64_t count_marks(const Batch& batch, std::int64_t first, TokenMark mark) {
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < batch.sequences; ++row) {
    const auto begin = batch.marks.begin() + row * (batch.length + 1) + first;
    count += std::count(begin, begin + batch.length, mark);
  }
  return count;
}

}  // namespace

std::int64_t count_targets(const Batch& batch) {
  if (batch.marks.empty()) return batch.sequences * batch.length;
  return count_marks(batch, 1, TokenMark::kInside);
}

std::int64_t count_padding(const Batch& batch) {
  return batch.marks.empty() ? 0 : count_marks(batch, 0, TokenMark::kPadding);
}

}  // namespace sluice
