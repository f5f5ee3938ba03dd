#include "decoder/mlp_blocks.hpp"

#include "model/blocks/dense_mlp.hpp"
#include "model/blocks/experts.hpp"
#include "model/blocks/router.hpp"
#include "model/blocks/shared_expert.hpp"
#include "ops/activation.hpp"
#include "ops/norm.hpp"
#include "ops/router.hpp"
#include "ops/runtime/graph_gradient.hpp"

#include <ATen/ops/bincount.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

namespace sluice {
namespace {

ops::Activation activation(const ModelConfig& config) {
  switch (config.mlp_activation) {
    case MlpActivation::kSilu:
      return ops::Activation::kSilu;
    case MlpActivation::kGeluTanh:
      return ops::Activation::kGeluTanh;
    case MlpActivation::kSquaredRelu:
      return ops::Activation::kSquaredRelu;
  }
  return ops::Activation::kSilu;
}

/// Form of a layer's MLPs of this limit, with gates and ups in matrices of their own.
ops::Gating gating(const ModelConfig& config, double limit) {
  return {.limit = static_cast<float>(limit),
          .slope = static_cast<float>(config.swiglu_slope),
          .activation = activation(config),
          .clamp = config.swiglu_clamp == SwigluClamp::kSilu ? ops::Clamp::kSilu : ops::Clamp::kGate};
}

DenseMlpParameters swiglu_parameters(const ModelConfig& config, const LayerViews& layer,
                                     const blocks::SwigluNames& names, double limit) {
  DenseMlpParameters out{.gate_proj = {},
                         .up_proj = layer.weight(names.up_proj),
                         .down_proj = layer.weight(names.down_proj),
                         .gating = gating(config, limit)};
  if (config.has_gates()) out.gate_proj = layer.weight(names.gate_proj);
  return out;
}

/// The completion that is called for the trained unit's experts.
const ops::ExpertCompletion* expert_completion(const ModelConfig& config, const LayerViews& layer) {
  const auto* of_down = layer.expert_completion(blocks::experts::kDownProj);
  return of_down != nullptr ? of_down : layer.expert_completion(blocks::experts::inner_proj(config));
}

ops::ExpertParameters expert_parameters(const ModelConfig& config, const LayerViews& layer) {
  namespace names = blocks::experts;
  ops::ExpertParameters out{layer.weight(names::inner_proj(config)), layer.weight(names::kDownProj),
                            expert_completion(config, layer)};
  out.gating = gating(config, config.swiglu_limits.experts);
  out.gating.interleaved = config.gate_up_order == GateUpOrder::kInterleaved;
  if (!config.expert_bias) return out;
  out.gate_up_bias = layer[names::kGateUpBias];
  out.down_bias = layer[names::kDownBias];
  return out;
}

/// What the down projection multiplies.
at::Tensor inner_values(const DenseMlpParameters& parameters, const at::Tensor& x) {
  if (!parameters.gate_proj) return ops::squared_relu(ops::linear(x, parameters.up_proj));
  return ops::swiglu(ops::linear(x, *parameters.gate_proj), ops::linear(x, parameters.up_proj),
                     parameters.gating);
}

at::Tensor shared_expert(const SharedExpertParameters& parameters, const at::Tensor& x) {
  if (!parameters.gate) return dense_mlp(parameters.mlp, x);
  return at::sigmoid(ops::linear(x, *parameters.gate)) * dense_mlp(parameters.mlp, x);
}

ops::RouterOptions router_options(const ModelConfig& config, const MoeParameters& parameters) {
  const RouterConfig& router = config.router;
  return {.experts_per_token = config.experts_per_token,
          .normalize_weights = router.normalize,
          .score =
              router.score == RouterScore::kSigmoid ? ops::RouterScore::kSigmoid : ops::RouterScore::kSoftmax,
          .epsilon = static_cast<float>(router.epsilon),
          .least_sum = static_cast<float>(router.least_sum),
          .scale = static_cast<float>(router.scale),
          .logit_cap = static_cast<float>(router.logit_cap),
          .chooses_by_logits = router.chooses_by_logits,
          .groups = router.groups,
          .chosen_groups = router.chosen_groups,
          .scores_per_group = router.scores_per_group,
          .correction_bias = parameters.correction_bias};
}

/// What a router multiplies, for its tokens x [T, hidden].
at::Tensor router_input(const ModelConfig& config, const MoeParameters& parameters, const at::Tensor& x) {
  if (!config.router.scales_input) return x;
  // Rounded as transformers does: behind the norm, the scale and the factor.
  return ops::row_norm(x, parameters.input_scale, config.rms_norm_eps) *
         (1 / std::sqrt(static_cast<double>(config.hidden_size)));
}

void add_routing(const ops::Routing& routing, const at::Tensor& counted, std::int64_t experts,
                 RoutingSums& sums) {
  const at::NoGradGuard no_grad;
  const auto of_counted = [&](const at::Tensor& all) {
    return counted.defined() ? all.index({counted}) : all;
  };
  sums.expert_tokens.add_(at::bincount(of_counted(routing.experts).flatten(), {}, experts));
  sums.probability_sums.add_(of_counted(routing.probabilities).sum(0, /*keepdim=*/false, at::kDouble));
  if (routing.logits.defined())
    sums.squared_log_sums.add_(at::logsumexp(of_counted(routing.logits), 1).to(at::kDouble).square().sum());
}

/// Returns the factor of each chosen expert, of the shape and type of the weights. As rows of a table, whose
/// gradients are summed in the order of the tokens by any number of threads.
at::Tensor scales_of(const ops::Parameter& scales, const ops::Routing& routing) {
  const at::Tensor table = ops::in_graph(scales, routing.weights).to(routing.weights.scalar_type());
  return at::embedding(table.unsqueeze(1), routing.experts).squeeze(-1);
}

/// One pass of a block's tokens between hidden states and experts: as they are, or through the projections of a
/// latent width. `d_out` as in moe_block().
class LatentPass {
 public:
  LatentPass(const std::optional<LatentProjections>& projections, RoutingRecord& record,
             const at::Tensor& d_out)
      : projections_(projections), record_(record), gradient_(d_out) {
    if (!projections_ || !d_out.defined()) return;
    // The gradient of the experts' results, and that of the projection back.
    const at::Tensor results = record_.latent.detach().requires_grad_(true);
    gradient_ = ops::graph_gradient(ops::linear(results, projections_->out), results, d_out);
    record_.latent.reset();
    is_for_graph_ = true;
  }

  [[nodiscard]] at::Tensor inputs(const at::Tensor& x) const {
    return projections_ ? ops::linear(x, projections_->in) : x;
  }
  /// Gradient of the experts' results in a pass for the graph alone; otherwise undefined.
  [[nodiscard]] const at::Tensor& gradient() const { return gradient_; }
  /// What the experts' `results` add to hidden states, of the shape of `x`; without a value in a pass for the graph
  /// alone.
  [[nodiscard]] at::Tensor output(const at::Tensor& x, const at::Tensor& results) const {
    if (!projections_) return results;
    if (is_for_graph_) return at::zeros_like(x) + ops::with_gradient(results, gradient_).sum();
    if (!at::GradMode::is_enabled()) record_.latent = results;
    return ops::linear(results, projections_->out);
  }

 private:
  const std::optional<LatentProjections>& projections_;
  RoutingRecord& record_;
  at::Tensor gradient_;
  bool is_for_graph_ = false;
};

}  // namespace

DenseMlpParameters dense_mlp_parameters(const ModelConfig& config, const LayerViews& layer) {
  return swiglu_parameters(config, layer, blocks::dense_mlp::kNames, config.swiglu_limits.dense);
}

MoeParameters moe_parameters(const ModelConfig& config, const LayerViews& layer) {
  MoeParameters out{layer.weight(blocks::router::weight_name(config)),
                    config.router.has_bias ? layer[blocks::router::kBias] : ops::Parameter(),
                    layer.buffer(blocks::router::kCorrectionBias), expert_parameters(config, layer)};
  if (config.router.scales_input) out.input_scale = layer[blocks::router::kInputScale];
  if (config.router.has_expert_scales) out.expert_scales = layer[blocks::router::kExpertScales];
  if (config.expert_latent_size > 0)
    out.latent = {layer.weight(blocks::experts::kLatentIn), layer.weight(blocks::experts::kLatentOut)};
  if (!blocks::shared_expert::is_in(config)) return out;
  out.shared = {swiglu_parameters(config, layer, blocks::shared_expert::names(config),
                                  config.swiglu_limits.shared_expert)};
  if (config.shared_expert_gate) out.shared->gate = layer.weight(blocks::shared_expert::kGate);
  return out;
}

at::Tensor dense_mlp(const DenseMlpParameters& parameters, const at::Tensor& x, ops::Purpose purpose) {
  return ops::linear(inner_values(parameters, x), parameters.down_proj, purpose);
}

at::Tensor moe_block(const ModelConfig& config, const MoeParameters& parameters, const MoeInputs& x,
                     RoutingRecord& record, RoutingSums& sums, const at::Tensor& probability_grad,
                     ops::TokenExchange& exchange, const at::Tensor& d_out,
                     const std::function<void()>& meanwhile) {
  ops::Routing routing = ops::route(
      router_input(config, parameters, x.router), parameters.router, router_options(config, parameters),
      record.chosen, {probability_grad, record.counted, record.z_scale}, parameters.router_bias);
  if (!record.chosen.defined()) {
    record.chosen = routing.experts;
    if (sums.expert_tokens.defined()) add_routing(routing, record.counted, config.experts, sums);
  }
  if (parameters.expert_scales.value.defined())
    routing.weights = routing.weights * scales_of(parameters.expert_scales, routing);
  const LatentPass latent(parameters.latent, record, d_out);
  ops::Experts experts(latent.inputs(x.experts), parameters.experts, routing, exchange, latent.gradient());
  if (meanwhile) meanwhile();
  if (!parameters.shared) return latent.output(x.experts, experts.output());
  const at::Tensor shared = shared_expert(*parameters.shared, x.experts);  // computed while the tokens travel
  return latent.output(x.experts, experts.output()) + shared;
}

}  // namespace sluice
