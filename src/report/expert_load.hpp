// How evenly tokens go to experts.
#pragma once

#include "metrics/expert_use.hpp"
#include "report/joined_metrics.hpp"
#include "report/thinning.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// /moe/expert_tokens [step, MoE layer, expert].
[[nodiscard]] bool is_expert_tokens(const JoinedColumn& column);

/// busiest_expert() of each step, the mean of all layers, and of that the mean of each group.
/// Error(kInternal) unless is_expert_tokens(), here and below.
[[nodiscard]] std::vector<double> busiest_experts(const JoinedMetrics& metrics, const JoinedColumn& column,
                                                  const Thinning& thinning);

/// Loads of all experts over groups of steps.
struct ExpertLoad {
  std::int64_t layers = 0, experts = 0;
  /// Tokens of each group of steps together [group, layer, expert].
  std::vector<double> tokens;

  /// A character for each group and expert of a layer, in this order: of the alphabet of base64 the first
  /// where there were no tokens, else number 32 + 31 / 3 log2 of the tokens over an even share, from 1 to 63.
  [[nodiscard]] std::string cells(std::int64_t layer) const;
};

/// Loads of the experts for each group of steps.
[[nodiscard]] ExpertLoad expert_load(const JoinedMetrics& metrics, const JoinedColumn& column,
                                     const Thinning& thinning);

}  // namespace sluice
