#include "data/first_fit.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace sluice {
namespace {

/// Free space of bins, as a tree of maxima.
class Rooms {
 public:
  Rooms(std::size_t bins, std::int32_t capacity)
      : leaves_(std::bit_ceil(bins)), rooms_(2 * leaves_, capacity) {}

  /// Takes `size` from the first bin that has as much space, and returns its number.
  std::int32_t take(std::int32_t size) {
    std::size_t node = 1;
    while (node < leaves_) node = 2 * node + (rooms_[2 * node] >= size ? 0 : 1);
    const auto bin = static_cast<std::int32_t>(node - leaves_);
    rooms_[node] -= size;
    while (node /= 2) rooms_[node] = std::max(rooms_[2 * node], rooms_[2 * node + 1]);
    return bin;
  }

 private:
  std::size_t leaves_;
  std::vector<std::int32_t> rooms_;
};

}  // namespace

Bins first_fit_decreasing(std::span<const std::int32_t> sizes, std::int32_t capacity) {
  Bins out{std::vector<std::int32_t>(sizes.size()), 0};
  if (sizes.empty()) return out;
  std::vector<std::int32_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  const auto size_of = [&](std::int32_t i) { return sizes[static_cast<std::size_t>(i)]; };
  std::ranges::stable_sort(order, std::ranges::greater(), size_of);
  SLUICE_ASSERT(size_of(order.front()) <= capacity && size_of(order.back()) > 0,
                "sizes {} to {} in bins of {}", size_of(order.back()), size_of(order.front()), capacity);
  Rooms rooms(sizes.size(), capacity);
  for (const std::int32_t i : order) out.bin_of[static_cast<std::size_t>(i)] = rooms.take(size_of(i));
  std::vector<std::int32_t> number(sizes.size(), -1);
  for (std::int32_t& bin : out.bin_of) {
    std::int32_t& named = number[static_cast<std::size_t>(bin)];
    if (named < 0) named = out.count++;
    bin = named;
  }
  return out;
}

}  // namespace sluice
