#include "train/load_balancing.hpp"

#include "ops/buffers/host_values.hpp"

#include <algorithm>
#include <iterator>

namespace sluice {
namespace {

/// Choices of expert e per token, over all layers.
double choices_per_token(const RoutingTotals& totals, std::int64_t expert, std::int64_t tokens) {
  std::int64_t chosen = 0;
  for (std::int64_t layer = 0; layer < totals.layers; ++layer)
    chosen += totals.expert_tokens[static_cast<std::size_t>(layer * totals.experts() + expert)];
  return static_cast<double>(chosen) / static_cast<double>(totals.layers * tokens);
}

double mean_probability(const RoutingTotals& totals, std::int64_t expert, std::int64_t tokens) {
  double sum = 0;
  for (std::int64_t layer = 0; layer < totals.layers; ++layer)
    sum += totals.probability_sums[static_cast<std::size_t>(layer * totals.experts() + expert)];
  return sum / static_cast<double>(totals.layers * tokens);
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
  }
  return totals;
}

double load_balancing_loss(const RoutingTotals& totals, std::int64_t tokens) {
  double sum = 0;
  for (std::int64_t expert = 0; expert < totals.experts(); ++expert)
    sum += choices_per_token(totals, expert, tokens) * mean_probability(totals, expert, tokens);
  return sum * static_cast<double>(totals.experts());
}

void fill_probability_gradient(const RoutingTotals& totals, std::int64_t tokens, double coefficient,
                               const at::Tensor& out) {
  const double scale =
      coefficient * static_cast<double>(totals.experts()) / static_cast<double>(totals.layers * tokens);
  std::vector<float> values;
  for (std::int64_t expert = 0; expert < totals.experts(); ++expert)
    values.push_back(static_cast<float>(scale * choices_per_token(totals, expert, tokens)));
  ops::set_values<float>(out, values);
}

}  // namespace sluice
