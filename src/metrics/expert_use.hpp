// How evenly tokens are distributed over experts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <ranges>
#include <span>

namespace sluice {

/// Load of a layer's busiest expert: its tokens over the mean of all experts; 1 is even. NaN without tokens.
template <std::ranges::sized_range Tokens>
[[nodiscard]] double busiest_expert(const Tokens& tokens) {
  const auto sum = static_cast<double>(
      std::accumulate(tokens.begin(), tokens.end(), std::ranges::range_value_t<Tokens>{}));
  if (!(sum > 0)) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(*std::ranges::max_element(tokens)) * static_cast<double>(tokens.size()) / sum;
}

/// Use of the experts of all MoE layers in one step.
struct ExpertUse {
  /// Load of the busiest expert in the most uneven layer, see busiest_expert().
  double busiest = std::numeric_limits<double>::quiet_NaN();
  /// Number of experts, over all layers, that no token chose.
  std::int64_t unused = 0;
};

/// Use of the experts, from tokens [MoE layers, experts].
[[nodiscard]] ExpertUse expert_use(std::span<const std::int64_t> tokens, std::int64_t experts);

}  // namespace sluice
