// How evenly tokens go to experts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <ranges>
#include <span>

namespace sluice {

/// Tokens of a layer's busiest expert over the mean of its experts: 1 is even. NaN without tokens.
template <std::ranges::sized_range Tokens>
[[nodiscard]] double busiest_expert(const Tokens& tokens) {
  const auto sum = static_cast<double>(
      std::accumulate(tokens.begin(), tokens.end(), std::ranges::range_value_t<Tokens>{}));
  if (!(sum > 0)) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(*std::ranges::max_element(tokens)) * static_cast<double>(tokens.size()) / sum;
}

/// Use of the experts of all MoE layers in one step.
struct ExpertUse {
  double busiest = std::numeric_limits<double>::quiet_NaN();  ///< busiest_expert() of the most uneven layer
  std::int64_t unused = 0;                                    ///< experts, of all layers, that no token chose
};

/// tokens [MoE layers, experts].
[[nodiscard]] ExpertUse expert_use(std::span<const std::int64_t> tokens, std::int64_t experts);

}  // namespace sluice
