// Best-fit allocation of blocks in a range of addresses: a block goes where the least room is left over.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace sluice {

/// Places blocks in [0, capacity). A block goes into the smallest gap that holds it, of equal ones into the
/// first; gaps next to each other become one. So the blocks stay low, and what lies above them stays unused.
/// Not for several threads at once; logarithmic in the number of gaps.
class BestFit {
 public:
  explicit BestFit(std::int64_t capacity);

  /// Finds room for a block of `size` > 0: returns where it begins, or nothing if no gap holds it.
  [[nodiscard]] std::optional<std::int64_t> place(std::int64_t size);
  /// Releases the block that begins at `begin`. Error(kInternal) if there is none.
  void release(std::int64_t begin);

 private:
  using Gap = std::map<std::int64_t, std::int64_t>::iterator;
  void add_gap(std::int64_t begin, std::int64_t size);
  std::pair<std::int64_t, std::int64_t> take_gap(Gap gap);

  std::map<std::int64_t, std::int64_t> gaps_;  // size of each gap, by its begin
  // Sizes and begins of the gaps, smallest first.
  std::set<std::pair<std::int64_t, std::int64_t>> gaps_by_size_;
  std::unordered_map<std::int64_t, std::int64_t> blocks_;  // size of each block, by its begin
};

}  // namespace sluice
