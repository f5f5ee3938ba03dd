#include "decoder/mlp_blocks.hpp"

#include "model/blocks/dense_mlp.hpp"
#include "model/blocks/experts.hpp"
#include "model/blocks/router.hpp"
#include "model/blocks/shared_expert.hpp"
#include "ops/activation.hpp"
#include "ops/router.hpp"

#include <ATen/ops/bincount.h>
#include <ATen/ops/sigmoid.h>

namespace sluice {
namespace {

DenseMlpParameters swiglu_parameters(const LayerViews& layer, const blocks::SwigluNames& names) {
  return {layer[names.gate_proj], layer[names.up_proj], layer[names.down_proj]};
}

at::Tensor shared_expert(const SharedExpertParameters& parameters, const at::Tensor& x) {
  return at::sigmoid(ops::linear(x, parameters.gate)) * dense_mlp(parameters.mlp, x);
}

}  // namespace

DenseMlpParameters dense_mlp_parameters(const LayerViews& layer) {
  return swiglu_parameters(layer, blocks::dense_mlp::kNames);
}

MoeParameters moe_parameters(const ModelConfig& config, const LayerViews& layer) {
  MoeParameters out{layer[blocks::router::kWeight],
                    {layer[blocks::experts::kGateUpProj], layer[blocks::experts::kDownProj],
                     layer.expert_completion(blocks::experts::kDownProj)}};
  if (blocks::shared_expert::is_in(config))
    out.shared = {swiglu_parameters(layer, blocks::shared_expert::kNames),
                  layer[blocks::shared_expert::kGate]};
  return out;
}

at::Tensor dense_mlp(const DenseMlpParameters& parameters, const at::Tensor& x, ops::Purpose purpose) {
  const at::Tensor hidden =
      ops::swiglu(ops::linear(x, parameters.gate_proj), ops::linear(x, parameters.up_proj));
  return ops::linear(hidden, parameters.down_proj, purpose);
}

at::Tensor moe_block(const ModelConfig& config, const MoeParameters& parameters, const at::Tensor& x,
                     RoutingRecord& record, RoutingSums& sums, const at::Tensor& probability_grad,
                     ops::TokenExchange& exchange, const at::Tensor& d_out) {
  const ops::RouterOptions options{config.experts_per_token, config.normalize_expert_weights};
  const ops::Routing routing = ops::route(x, parameters.router, options, record.chosen, probability_grad);
  if (!record.chosen.defined()) {
    record.chosen = routing.experts;
    if (sums.expert_tokens.defined()) {
      sums.expert_tokens.add_(at::bincount(routing.experts.flatten(), {}, config.experts));
      sums.probability_sums.add_(routing.probabilities.detach().sum(0, /*keepdim=*/false, at::kDouble));
    }
  }
  ops::Experts experts(x, parameters.experts, routing, exchange, d_out);
  if (!parameters.shared) return experts.output();
  const at::Tensor shared = shared_expert(*parameters.shared, x);  // while the tokens travel
  return experts.output() + shared;
}

}  // namespace sluice
