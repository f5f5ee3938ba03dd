#include "decoder/kimi_delta_block.hpp"

#include "decoder/delta_net_block.hpp"
#include "model/blocks/kimi_delta.hpp"
#include "ops/norm.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>

#include <string_view>

namespace sluice {
namespace {

at::Tensor projected(const at::Tensor& tokens, const KimiProjection& projection) {
  const bool has_rank = projection.first.base.value.defined();
  return ops::linear(has_rank ? ops::linear(tokens, projection.first) : tokens, projection.last);
}

/// Logarithms of decays [b, L, heads, head size] in float32, for what tokens are projected to, [b, L, width].
at::Tensor log_decays(const LinearAttentionConfig& linear, const KimiDeltaParameters& parameters,
                      const at::Tensor& projected) {
  const at::Tensor biased = (projected.to(at::kFloat) + ops::in_graph(parameters.dt_bias, projected))
                                .unflatten(2, {linear.value_heads, -1});
  const at::Tensor rates = ops::in_graph(parameters.a_log, projected).view({linear.value_heads, 1}).exp();
  if (linear.least_log_decay) return at::sigmoid(rates * biased) * *linear.least_log_decay;
  return -rates * at::softplus(biased);
}

DeltaProjections project(const ModelConfig& config, const KimiDeltaParameters& parameters,
                         const at::Tensor& x) {
  const at::Tensor tokens = x.reshape({-1, config.hidden_size});
  const auto by_token = [&](const at::Tensor& rows) { return rows.view({x.size(0), x.size(1), -1}); };
  const at::Tensor mixed =
      at::cat({ops::linear(tokens, parameters.q_proj), ops::linear(tokens, parameters.k_proj),
               ops::linear(tokens, parameters.v_proj)},
              1);
  return {by_token(mixed),
          log_decays(config.linear_attention, parameters, by_token(projected(tokens, parameters.decay))),
          at::sigmoid(by_token(ops::linear(tokens, parameters.b_proj)).to(at::kFloat))};
}

/// Output of the block [b * L, hidden] for `out`, the delta rule's result for tokens x.
at::Tensor output(const ModelConfig& config, const KimiDeltaParameters& parameters, const at::Tensor& x,
                  const at::Tensor& out, ops::Purpose purpose) {
  const at::Tensor gate = projected(x.reshape({-1, config.hidden_size}), parameters.gate);
  const at::Tensor normalised =
      ops::row_norm(out, parameters.norm, config.rms_norm_eps, ops::NormKind::kUnrounded);
  return ops::linear(normalised.view(gate.sizes()) * at::sigmoid(gate), parameters.o_proj, purpose);
}

}  // namespace

KimiDeltaParameters kimi_delta_parameters(const ModelConfig& config, const LayerViews& layer) {
  namespace names = blocks::kimi_delta;
  const bool has_rank = config.linear_attention.gate_rank > 0;
  const auto projection = [&](std::string_view whole, std::string_view first, std::string_view last) {
    return has_rank ? KimiProjection{layer.weight(first), layer.weight(last)}
                    : KimiProjection{{}, layer.weight(whole)};
  };
  return {.q_proj = layer.weight(names::kQProj),
          .k_proj = layer.weight(names::kKProj),
          .v_proj = layer.weight(names::kVProj),
          .conv1d = layer[names::kConv1d],
          .dt_bias = layer[names::kDtBias],
          .a_log = layer[names::kALog],
          .decay = projection(names::kFProj, names::kFAProj, names::kFBProj),
          .gate = projection(names::kGProj, names::kGAProj, names::kGBProj),
          .b_proj = layer.weight(names::kBProj),
          .norm = layer[names::kNorm],
          .o_proj = layer.weight(names::kOProj)};
}

at::Tensor kimi_delta_block(const ModelConfig& config, const KimiDeltaParameters& parameters,
                            const at::Tensor& x, const ops::Documents& documents, ops::Purpose purpose) {
  const at::Tensor out =
      delta_values(config.linear_attention, project(config, parameters, x), parameters.conv1d, documents);
  return output(config, parameters, x, out, purpose).view(x.sizes());
}

at::Tensor cached_kimi_delta_block(const ModelConfig& config, const KimiDeltaParameters& parameters,
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
