#include "train/load_balancing.hpp"

#include "ops/buffers/host_values.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>

namespace sluice {
namespace {

/// How the experts of one layer, or of all layers together, are used, per token and layer.
struct Use {
  std::vector<double> choices;        ///< how often a token chooses each expert, [experts]
  std::vector<double> probabilities;  ///< mean probability of each expert over tokens, [experts]
};

/// Use of the experts of layers [first, first + count).
Use use_of(const RoutingTotals& totals, std::int64_t tokens, std::int64_t first, std::int64_t count) {
  const auto experts = static_cast<std::size_t>(totals.experts());
  Use use{std::vector<double>(experts), std::vector<double>(experts)};
  for (std::int64_t layer = first; layer < first + count; ++layer) {
    for (std::size_t expert = 0; expert < experts; ++expert) {
      const std::size_t at = static_cast<std::size_t>(layer) * experts + expert;
      use.choices[expert] += static_cast<double>(totals.expert_tokens[at]);
      use.probabilities[expert] += totals.probability_sums[at];
    }
  }
  const auto rows = static_cast<double>(count * tokens);
  for (double& choices : use.choices) choices /= rows;
  for (double& probability : use.probabilities) probability /= rows;
  return use;
}

/// Uses of the sets of layers that are balanced together: one set of all layers, or one set per layer.
std::vector<Use> uses_of(const RoutingTotals& totals, std::int64_t tokens, BalancingScope scope) {
  if (totals.layers == 0) return {};
  if (scope == BalancingScope::kModel) return {use_of(totals, tokens, 0, totals.layers)};
  std::vector<Use> uses;
  for (std::int64_t layer = 0; layer < totals.layers; ++layer)
    uses.push_back(use_of(totals, tokens, layer, 1));
  return uses;
}

}  // namespace

std::int64_t RoutingTotals::experts() const {
  return layers == 0 ? 0 : static_cast<std::int64_t>(expert_tokens.size()) / layers;
}

RoutingTotals collect(const std::vector<RoutingSums>& layers) {
  RoutingTotals totals;
  for (const RoutingSums& layer : layers) {
    if (!layer.expert_tokens.defined()) continue;
    ++totals.layers;
    std::ranges::copy(ops::host_values<std::int64_t>(layer.expert_tokens),
                      std::back_inserter(totals.expert_tokens));
    std::ranges::copy(ops::host_values<double>(layer.probability_sums),
                      std::back_inserter(totals.probability_sums));
    totals.squared_log_sums += ops::host_values<double>(layer.squared_log_sums).front();
  }
  return totals;
}

double load_balancing_loss(const RoutingTotals& totals, std::int64_t tokens, BalancingScope scope) {
  const std::vector<Use> uses = uses_of(totals, tokens, scope);
  double sum = 0;
  for (const Use& use : uses)
    sum += std::inner_product(use.choices.begin(), use.choices.end(), use.probabilities.begin(), 0.0);
  return uses.empty() ? 0 : sum * static_cast<double>(totals.experts()) / static_cast<double>(uses.size());
}

double z_loss(const RoutingTotals& totals, std::int64_t tokens) {
  return totals.layers == 0 ? 0 : totals.squared_log_sums / static_cast<double>(totals.layers * tokens);
}

float z_scale(double coefficient, std::int64_t layers, std::int64_t tokens) {
  return coefficient == 0 || layers == 0
             ? 0
             : static_cast<float>(2 * coefficient / static_cast<double>(layers * tokens));
}

void fill_probability_gradient(const RoutingTotals& totals, std::int64_t tokens, double coefficient,
                               BalancingScope scope, const at::Tensor& out) {
  const std::vector<Use> uses = uses_of(totals, tokens, scope);
  // A layer's mean probability is divided by its tokens, and the mean over all layers by `layers` times as
  // many.
  const double scale =
      coefficient * static_cast<double>(totals.experts()) / static_cast<double>(totals.layers * tokens);
  std::vector<float> values;
  for (std::int64_t layer = 0; layer < totals.layers; ++layer) {
    const Use& use = uses[scope == BalancingScope::kModel ? 0 : static_cast<std::size_t>(layer)];
    for (const double choices : use.choices) values.push_back(static_cast<float>(scale * choices));
  }
  ops::set_values<float>(out, values);
}

}  // namespace sluice
