// Losses of the routers over all tokens of a step, micro-batches and ranks taken together. The load-balancing
// loss is transformers' load_balancing_loss_func (Fedus et al. 2021, eq. 4-6), of all MoE layers together or
// of each layer by itself. The z-loss keeps a router's logits small (Zoph et al. 2022, "ST-MoE", eq. 5).
#pragma once

#include "config/choices.hpp"
#include "decoder/mlp_blocks.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// Routing sums of a step, one MoE layer after the other.
struct RoutingTotals {
  std::int64_t layers = 0;
  std::vector<std::int64_t> expert_tokens;  ///< tokens (times k) that chose each expert, [layers x experts]
  /// sum over tokens of each expert's probability, [layers x experts]
  std::vector<double> probability_sums;
  /// Sum over the tokens of all layers of logsumexp(logits)^2; 0 without a z-loss.
  double squared_log_sums = 0;
  [[nodiscard]] std::int64_t experts() const;
};

/// This rank's routing sums as plain numbers; layers without a router (undefined tensors) are left out.
[[nodiscard]] RoutingTotals collect(const std::vector<RoutingSums>& layers);

/// Load-balancing loss: experts * sum over e of f_e P_e, where f_e is the number of choices of expert e per
/// token and P_e its mean probability; both over the tokens of all layers, or of each layer, whose losses are
/// then averaged. 0 without MoE layers.
[[nodiscard]] double load_balancing_loss(const RoutingTotals& totals, std::int64_t tokens,
                                         BalancingScope scope);

/// Z-loss: the mean over tokens and MoE layers of log(sum over experts of exp(logit))^2. 0 without MoE
/// layers.
[[nodiscard]] double z_loss(const RoutingTotals& totals, std::int64_t tokens);

/// ops::RouterLossGrad::z_scale, the factor of the gradient of coefficient * z_loss() in a model with
/// `layers` MoE layers.
[[nodiscard]] float z_scale(double coefficient, std::int64_t layers, std::int64_t tokens);

/// Writes d(coefficient * loss) / d(probability of expert e in an MoE layer), the same for every token, to
/// `out` [MoE layers, experts] float32.
void fill_probability_gradient(const RoutingTotals& totals, std::int64_t tokens, double coefficient,
                               BalancingScope scope, const at::Tensor& out);

}  // namespace sluice
