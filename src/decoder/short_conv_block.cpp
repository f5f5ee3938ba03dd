#include "decoder/short_conv_block.hpp"

#include "model/blocks/short_conv.hpp"
#include "ops/causal_conv.hpp"

#include <vector>

namespace sluice {
namespace {

/// What tokens x [b, L, hidden] are projected to, each [b, L, hidden].
struct GatedInputs {
  at::Tensor gated;     ///< inputs of the convolution, times their gate
  at::Tensor out_gate;  ///< factor of the convolution's outputs
};

GatedInputs project(const ModelConfig& config, const ShortConvParameters& parameters, const at::Tensor& x) {
  const std::vector<at::Tensor> parts = ops::linear(x.reshape({-1, config.hidden_size}), parameters.in_proj)
                                            .view({x.size(0), x.size(1), 3, config.hidden_size})
                                            .unbind(2);
  return {parts[0] * parts[2], parts[1]};
}

/// Output of the block [b * L, hidden] for the convolution's result `mixed`.
at::Tensor output(const ModelConfig& config, const ShortConvParameters& parameters, const GatedInputs& in,
                  const at::Tensor& mixed, ops::Purpose purpose) {
  return ops::linear((in.out_gate * mixed).view({-1, config.hidden_size}), parameters.out_proj, purpose);
}

}  // namespace

ShortConvParameters short_conv_parameters(const LayerViews& layer) {
  namespace names = blocks::short_conv;
  return {.in_proj = layer.weight(names::kInProj),
          .conv = layer[names::kConv],
          .out_proj = layer.weight(names::kOutProj)};
}

at::Tensor short_conv_block(const ModelConfig& config, const ShortConvParameters& parameters,
                            const at::Tensor& x, const ops::Documents& documents, ops::Purpose purpose) {
  const GatedInputs in = project(config, parameters, x);
  const at::Tensor mixed = ops::causal_conv(in.gated, parameters.conv, ops::ConvActivation::kNone, documents);
  return output(config, parameters, in, mixed, purpose).view(x.sizes());
}

at::Tensor cached_short_conv_block(const ModelConfig& config, const ShortConvParameters& parameters,
                                   const at::Tensor& x, std::span<const SequencePart> parts,
                                   ShortConvCache& cache) {
  return compute_in_batches(x, parts, [&](const at::Tensor& tokens, const at::Tensor& slots) {
    const GatedInputs in = project(config, parameters, tokens);
    at::Tensor window = cache.window.index_select(0, slots);
    const at::Tensor mixed =
        ops::continue_causal_conv(in.gated, parameters.conv, ops::ConvActivation::kNone, window);
    cache.window.index_copy_(0, slots, window);
    return output(config, parameters, in, mixed, ops::Purpose::kOutput);
  });
}

}  // namespace sluice
