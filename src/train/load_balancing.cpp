#include "train/load_balancing.hpp"

#include <ATen/core/Tensor.h>

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
    const auto* tokens = layer.expert_tokens.data_ptr<std::int64_t>();
    const auto* probabilities = layer.probability_sums.data_ptr<double>();
    totals.expert_tokens.insert(totals.expert_tokens.end(), tokens, tokens + layer.expert_tokens.numel());
    totals.probability_sums.insert(totals.probability_sums.end(), probabilities,
                                   probabilities + layer.probability_sums.numel());
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
                               at::Tensor& out) {
  const double scale =
      coefficient * static_cast<double>(totals.experts()) / static_cast<double>(totals.layers * tokens);
  float* values = out.data_ptr<float>();
  for (std::int64_t expert = 0; expert < totals.experts(); ++expert)
    values[expert] = static_cast<float>(scale * choices_per_token(totals, expert, tokens));
}

}  // namespace sluice
