// How evenly tokens are distributed over experts, for charts.
#pragma once

#include "metrics/expert_use.hpp"
#include "report/joined_metrics.hpp"
#include "report/thinning.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Whether a column is /moe/expert_tokens [step, MoE layer, expert].
[[nodiscard]] bool is_expert_tokens(const JoinedColumn& column);

/// Load of the busiest expert (busiest_expert()) in each step, averaged over layers, and then over each group
/// of steps. Error(kInternal) unless is_expert_tokens(), here and below.
[[nodiscard]] std::vector<double> busiest_experts(const JoinedMetrics& metrics, const JoinedColumn& column,
                                                  const Thinning& thinning);

/// Loads of all experts over groups of steps.
struct ExpertLoad {
  std::int64_t layers = 0, experts = 0;
  /// Tokens summed over each group of steps, [group, layer, expert].
  std::vector<double> tokens;

  /// Loads of a layer as text, a character per group and expert, in this order: the first of base64's
  /// alphabet if there were no tokens, else number 32 + 31 / 3 log2(tokens over an even share), from 1 to 63.
  [[nodiscard]] std::string cells(std::int64_t layer) const;
};

/// Loads of the experts for each group of steps.
[[nodiscard]] ExpertLoad expert_load(const JoinedMetrics& metrics, const JoinedColumn& column,
                                     const Thinning& thinning);

/// Share of a layer's choices that each of its experts has got over all steps, [layer][expert]; the same for all of a
/// layer without tokens. Empty if the metrics have no such column, as of a model without experts.
[[nodiscard]] std::vector<std::vector<double>> expert_shares(const JoinedMetrics& metrics);

}  // namespace sluice
