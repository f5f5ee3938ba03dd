#include "decoder/mamba2_block.hpp"

#include "model/blocks/mamba2.hpp"
#include "ops/activation.hpp"
#include "ops/causal_conv.hpp"
#include "ops/mamba2_scan.hpp"
#include "ops/norm.hpp"

#include <ATen/ops/softplus.h>

#include <cmath>
#include <vector>

namespace sluice {
namespace {

/// What tokens x [b, L, hidden] are projected to, each [b, L, ...].
struct Mamba2Projections {
  at::Tensor gate;
  at::Tensor mixed;  ///< inputs of the heads, B and C before the convolution
  at::Tensor step;   ///< time steps before their bias [b, L, heads]
};

Mamba2Projections project(const ModelConfig& config, const Mamba2Parameters& parameters,
                          const at::Tensor& x) {
  const Mamba2Config& mamba = config.mamba2;
  const std::vector<at::Tensor> parts = ops::linear(x.reshape({-1, config.hidden_size}), parameters.in_proj)
                                            .view({x.size(0), x.size(1), -1})
                                            .split_with_sizes({mamba.width(), mamba.mixed(), mamba.heads}, 2);
  return {parts[0], parts[1], parts[2]};
}

/// Time steps in float32, within their limits: bfloat16 is too coarse for decays of many tokens.
at::Tensor steps(const Mamba2Config& mamba, const Mamba2Parameters& parameters, const at::Tensor& projected) {
  const at::Tensor step =
      at::softplus(projected.to(at::kFloat) + ops::in_graph(parameters.dt_bias, projected));
  const bool is_limited = mamba.least_step > 0 || std::isfinite(mamba.largest_step);
  return is_limited ? step.clamp(mamba.least_step, mamba.largest_step) : step;
}

/// Inputs of the scan for projections `in`; `mixed` is in.mixed after the convolution.
ops::Mamba2Inputs scan_inputs(const ModelConfig& config, const Mamba2Parameters& parameters,
                              const Mamba2Projections& in, const at::Tensor& mixed) {
  const Mamba2Config& mamba = config.mamba2;
  const std::int64_t of_groups = mamba.groups * mamba.state_dim;
  const std::vector<at::Tensor> parts = mixed.split_with_sizes({mamba.width(), of_groups, of_groups}, 2);
  const at::Tensor step = steps(mamba, parameters, in.step);
  return {.x = parts[0].unflatten(2, {mamba.heads, -1}),
          .b = parts[1].unflatten(2, {mamba.groups, -1}),
          .c = parts[2].unflatten(2, {mamba.groups, -1}),
          .log_decay = step * -ops::in_graph(parameters.a_log, in.step).exp(),
          .step = step,
          .skip = ops::in_graph(parameters.skip, in.step)};
}

/// Output of the block [b * L, hidden] for `out`, the scan's result.
at::Tensor output(const ModelConfig& config, const Mamba2Parameters& parameters, const at::Tensor& gate,
                  const at::Tensor& out, ops::Purpose purpose) {
  const Mamba2Config& mamba = config.mamba2;
  const std::vector<std::int64_t> rows{-1, mamba.width()};
  const at::Tensor gated = ops::swiglu(gate.reshape(rows), out.reshape(rows));
  const at::Tensor normalised = ops::row_norm(gated.view({-1, mamba.width() / mamba.groups}), parameters.norm,
                                              config.rms_norm_eps, ops::NormKind::kUnrounded);
  return ops::linear(normalised.view(rows), parameters.out_proj, purpose);
}

}  // namespace

Mamba2Parameters mamba2_parameters(const ModelConfig& config, const LayerViews& layer) {
  namespace names = blocks::mamba2;
  Mamba2Parameters out{.in_proj = layer.weight(names::kInProj),
                       .conv1d = layer[names::kConv1d],
                       .conv_bias = {},
                       .dt_bias = layer[names::kDtBias],
                       .a_log = layer[names::kALog],
                       .skip = layer[names::kSkip],
                       .norm = layer[names::kNorm],
                       .out_proj = layer.weight(names::kOutProj)};
  if (config.mamba2.conv_bias) out.conv_bias = layer[names::kConvBias];
  return out;
}

at::Tensor mamba2_block(const ModelConfig& config, const Mamba2Parameters& parameters, const at::Tensor& x,
                        const ops::Documents& documents, ops::Purpose purpose) {
  const Mamba2Projections in = project(config, parameters, x);
  const at::Tensor mixed = ops::causal_conv(in.mixed, parameters.conv1d, ops::ConvActivation::kSilu,
                                            documents, parameters.conv_bias);
  const at::Tensor out = ops::mamba2_scan(scan_inputs(config, parameters, in, mixed), documents);
  return output(config, parameters, in.gate, out, purpose).view(x.sizes());
}

at::Tensor cached_mamba2_block(const ModelConfig& config, const Mamba2Parameters& parameters,
                               const at::Tensor& x, std::span<const SequencePart> parts,
                               DeltaNetCache& cache) {
  const auto compute = [&](const at::Tensor& tokens, at::Tensor& window, at::Tensor& state) {
    const Mamba2Projections in = project(config, parameters, tokens);
    const at::Tensor mixed = ops::continue_causal_conv(
        in.mixed, parameters.conv1d, ops::ConvActivation::kSilu, window, parameters.conv_bias);
    const at::Tensor out = ops::continue_mamba2_scan(scan_inputs(config, parameters, in, mixed), state);
    return output(config, parameters, in.gate, out, ops::Purpose::kOutput);
  };
  return carry_in_batches(x, parts, cache, compute);
}

}  // namespace sluice
