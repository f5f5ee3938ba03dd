#include "train/guard/collapse_watch.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>

namespace sluice {

double CollapseWatch::share_of(std::span<const std::int64_t> layer) const {
  std::vector<std::int64_t> tokens(layer.begin(), layer.end());
  const auto end_of_busiest = tokens.begin() + chosen_;
  std::ranges::partial_sort(tokens, end_of_busiest, std::greater());
  const std::int64_t busiest = std::accumulate(tokens.begin(), end_of_busiest, std::int64_t{0});
  const std::int64_t all = std::accumulate(end_of_busiest, tokens.end(), busiest);
  return all == 0 ? 0 : static_cast<double>(busiest) / static_cast<double>(all);
}

std::optional<CollapsedLayer> CollapseWatch::add(std::span<const std::int64_t> tokens) {
  if (has_told_ || tokens.empty() || 2 * chosen_ > experts_) return std::nullopt;
  const auto width = static_cast<std::size_t>(experts_);
  steps_.resize(tokens.size() / width);
  std::optional<CollapsedLayer> worst;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const std::span<const std::int64_t> layer = tokens.subspan(i * width, width);
    const double share = share_of(layer);
    steps_[i] = share >= kShare ? steps_[i] + 1 : 0;
    if (steps_[i] >= kSteps && (!worst || share > worst->share))
      worst = {static_cast<std::int64_t>(i), share, std::ranges::count(layer, 0)};
  }
  has_told_ = worst.has_value();
  return worst;
}

}  // namespace sluice
