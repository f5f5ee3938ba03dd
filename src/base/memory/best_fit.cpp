#include "base/memory/best_fit.hpp"

#include "base/error.hpp"

#include <iterator>

namespace sluice {

BestFit::BestFit(std::int64_t capacity) {
  SLUICE_ASSERT(capacity > 0, "a range cannot have {} elements", capacity);
  add_gap(0, capacity);
}

std::optional<std::int64_t> BestFit::place(std::int64_t size) {
  SLUICE_ASSERT(size > 0, "a block cannot have {} elements", size);
  const auto smallest = gaps_by_size_.lower_bound({size, 0});
  if (smallest == gaps_by_size_.end()) return std::nullopt;
  const auto [begin, room] = take_gap(gaps_.find(smallest->second));
  if (room > size) add_gap(begin + size, room - size);
  blocks_.emplace(begin, size);
  return begin;
}

void BestFit::release(std::int64_t begin) {
  const auto block = blocks_.find(begin);
  SLUICE_ASSERT(block != blocks_.end(), "no block begins at {}", begin);
  std::int64_t end = begin + block->second;
  blocks_.erase(block);

  const Gap after = gaps_.lower_bound(begin);
  if (after != gaps_.begin()) {
    const Gap before = std::prev(after);
    if (before->first + before->second == begin) begin = take_gap(before).first;
  }
  if (after != gaps_.end() && after->first == end) end += take_gap(after).second;
  add_gap(begin, end - begin);
}

void BestFit::add_gap(std::int64_t begin, std::int64_t size) {
  gaps_.emplace(begin, size);
  gaps_by_size_.emplace(size, begin);
}

std::pair<std::int64_t, std::int64_t> BestFit::take_gap(Gap gap) {
  const std::pair<std::int64_t, std::int64_t> taken = *gap;
  gaps_by_size_.erase({taken.second, taken.first});
  gaps_.erase(gap);
  return taken;
}

}  // namespace sluice
