#include "decoder/delta_net_block.hpp"

#include "model/blocks/gated_delta_net.hpp"
#include "ops/activation.hpp"
#include "ops/causal_conv.hpp"
#include "ops/gated_delta_rule.hpp"
#include "ops/norm.hpp"

#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>

#include <vector>

namespace sluice {
namespace {

/// Logarithm of the state's decay, -exp(A) softplus(a + dt), in float32: bfloat16 is too coarse for a large
/// A.
at::Tensor log_decay(const DeltaNetParameters& parameters, const at::Tensor& a) {
  const at::Tensor rate = ops::in_graph(parameters.a_log, a).to(at::kFloat).exp();
  return -rate * at::softplus(a.to(at::kFloat) + ops::in_graph(parameters.dt_bias, a));
}

DeltaProjections project(const ModelConfig& config, const DeltaNetParameters& parameters,
                         const at::Tensor& x) {
  const at::Tensor tokens = x.reshape({-1, config.hidden_size});
  const auto project = [&](const ops::Weight& weight) {
    return ops::linear(tokens, weight).view({x.size(0), x.size(1), -1});
  };
  return {project(parameters.in_proj_qkv), log_decay(parameters, project(parameters.in_proj_a)),
          at::sigmoid(project(parameters.in_proj_b).to(at::kFloat))};
}

/// Output of the block [b * L, hidden] for `out`, the delta rule's result for tokens x.
at::Tensor output(const ModelConfig& config, const DeltaNetParameters& parameters, const at::Tensor& x,
                  const at::Tensor& out, ops::Purpose purpose) {
  const LinearAttentionConfig& linear = config.linear_attention;
  const at::Tensor tokens = x.reshape({-1, config.hidden_size});
  const at::Tensor normalised = ops::row_norm(out, parameters.norm, config.rms_norm_eps);
  const at::Tensor gated =
      ops::swiglu(ops::linear(tokens, parameters.in_proj_z),
                  normalised.view({tokens.size(0), linear.value_heads * linear.value_head_dim}));
  return ops::linear(gated, parameters.out_proj, purpose);
}

/// Inputs of the delta rule; `mixed` is in.mixed after the convolution.
ops::DeltaRuleInputs rule_inputs(const LinearAttentionConfig& linear, const DeltaProjections& in,
                                 const at::Tensor& mixed) {
  const std::int64_t keys = linear.key_heads * linear.key_head_dim;
  const std::int64_t values = linear.value_heads * linear.value_head_dim;
  const auto heads = [&](std::int64_t begin, std::int64_t width, std::int64_t count) {
    return mixed.narrow(2, begin, width).unflatten(2, {count, -1});
  };
  return {.q = heads(0, keys, linear.key_heads),
          .k = heads(keys, keys, linear.key_heads),
          .v = heads(2 * keys, values, linear.value_heads),
          .log_decay = in.log_decay,
          .beta = in.beta};
}

}  // namespace

at::Tensor delta_values(const LinearAttentionConfig& linear, const DeltaProjections& in,
                        const ops::Parameter& conv1d, const ops::Documents& documents) {
  const at::Tensor mixed = ops::causal_conv(in.mixed, conv1d, ops::ConvActivation::kSilu, documents);
  return ops::gated_delta_rule(rule_inputs(linear, in, mixed), documents);
}

at::Tensor continued_delta_values(const LinearAttentionConfig& linear, const DeltaProjections& in,
                                  const ops::Parameter& conv1d, at::Tensor& window, at::Tensor& state) {
  const at::Tensor mixed = ops::continue_causal_conv(in.mixed, conv1d, ops::ConvActivation::kSilu, window);
  return ops::continue_gated_delta_rule(rule_inputs(linear, in, mixed), state);
}

DeltaNetParameters delta_net_parameters(const LayerViews& layer) {
  namespace names = blocks::gated_delta_net;
  return {.in_proj_qkv = layer.weight(names::kInProjQkv),
          .in_proj_z = layer.weight(names::kInProjZ),
          .in_proj_b = layer.weight(names::kInProjB),
          .in_proj_a = layer.weight(names::kInProjA),
          .conv1d = layer[names::kConv1d],
          .dt_bias = layer[names::kDtBias],
          .a_log = layer[names::kALog],
          .norm = layer[names::kNorm],
          .out_proj = layer.weight(names::kOutProj)};
}

at::Tensor delta_net_block(const ModelConfig& config, const DeltaNetParameters& parameters,
                           const at::Tensor& x, const ops::Documents& documents, ops::Purpose purpose) {
  const at::Tensor out =
      delta_values(config.linear_attention, project(config, parameters, x), parameters.conv1d, documents);
  return output(config, parameters, x, out, purpose).view({x.size(0), x.size(1), config.hidden_size});
}

at::Tensor cached_delta_net_block(const ModelConfig& config, const DeltaNetParameters& parameters,
                                  const at::Tensor& x, std::span<const SequencePart> parts,
                                  DeltaNetCache& cache) {
  const auto compute = [&](const at::Tensor& tokens, at::Tensor& window, at::Tensor& state) {
    const at::Tensor out = continued_delta_values(
        config.linear_attention, project(config, parameters, tokens), parameters.conv1d, window, state);
    return output(config, parameters, tokens, out, ops::Purpose::kOutput);
  };
  return carry_in_batches(x, parts, cache, compute);
}

}  // namespace sluice
