#include "decoder/delta_net_block.hpp"

#include "model/blocks/gated_delta_net.hpp"
#include "ops/activation.hpp"
#include "ops/causal_conv.hpp"
#include "ops/gated_delta_rule.hpp"
#include "ops/norm.hpp"

#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>

namespace sluice {
namespace {

/// -exp(A) softplus(a + dt), in float32: with bfloat16 weights a large A would not survive.
at::Tensor log_decay(const DeltaNetParameters& parameters, const at::Tensor& a) {
  const at::Tensor rate = ops::in_graph(parameters.a_log, a).to(at::kFloat).exp();
  return -rate * at::softplus(a.to(at::kFloat) + ops::in_graph(parameters.dt_bias, a));
}

}  // namespace

DeltaNetParameters delta_net_parameters(const LayerViews& layer) {
  namespace names = blocks::gated_delta_net;
  return {.in_proj_qkv = layer[names::kInProjQkv],
          .in_proj_z = layer[names::kInProjZ],
          .in_proj_b = layer[names::kInProjB],
          .in_proj_a = layer[names::kInProjA],
          .conv1d = layer[names::kConv1d],
          .dt_bias = layer[names::kDtBias],
          .a_log = layer[names::kALog],
          .norm = layer[names::kNorm],
          .out_proj = layer[names::kOutProj]};
}

at::Tensor delta_net_block(const ModelConfig& config, const DeltaNetParameters& parameters,
                           const at::Tensor& x, const ops::Documents& documents, ops::Purpose purpose) {
  const LinearAttentionConfig& linear = config.linear_attention;
  const std::int64_t sequences = x.size(0);
  const std::int64_t length = x.size(1);
  const std::int64_t keys = linear.key_heads * linear.key_head_dim;
  const std::int64_t values = linear.value_heads * linear.value_head_dim;
  const at::Tensor tokens = x.reshape({sequences * length, config.hidden_size});
  const auto project = [&](const ops::Parameter& weight) {
    return ops::linear(tokens, weight).view({sequences, length, -1});
  };

  const at::Tensor mixed =
      ops::causal_conv_silu(project(parameters.in_proj_qkv), parameters.conv1d, documents);
  const auto heads = [&](std::int64_t begin, std::int64_t width, std::int64_t count) {
    return mixed.narrow(2, begin, width).unflatten(2, {count, -1});
  };
  const at::Tensor out =
      ops::gated_delta_rule({.q = heads(0, keys, linear.key_heads),
                             .k = heads(keys, keys, linear.key_heads),
                             .v = heads(2 * keys, values, linear.value_heads),
                             .log_decay = log_decay(parameters, project(parameters.in_proj_a)),
                             .beta = at::sigmoid(project(parameters.in_proj_b).to(at::kFloat))},
                            documents);

  const at::Tensor normalised = ops::rms_norm(out, parameters.norm, config.rms_norm_eps);
  const at::Tensor gated =
      ops::swiglu(ops::linear(tokens, parameters.in_proj_z), normalised.view({sequences * length, values}));
  return ops::linear(gated, parameters.out_proj, purpose).view({sequences, length, config.hidden_size});
}

}  // namespace sluice
