// Gated short convolution of LFM2.
#pragma once

#include "decoder/parameter_views.hpp"
#include "decoder/sequence_cache.hpp"
#include "model/model_config.hpp"
#include "ops/documents.hpp"
#include "ops/linear.hpp"
#include "ops/parameter.hpp"

#include <span>

namespace sluice {

/// Weights of one layer's short convolution; shapes as in the manifest.
struct ShortConvParameters {
  ops::Weight in_proj;  ///< projection to both gates and the inputs [3 hidden, hidden]
  ops::Parameter conv;  ///< filters of the causal convolution [hidden, 1, taps]
  ops::Weight out_proj;
};

/// Weights of a layer with a short convolution.
[[nodiscard]] ShortConvParameters short_conv_parameters(const LayerViews& layer);

/// Short convolution of x [b, L, hidden], with a result of the same shape; a token sees itself and the few before it
/// of its document. In a pass for the graph alone the result is zeros.
[[nodiscard]] at::Tensor short_conv_block(const ModelConfig& config, const ShortConvParameters& parameters,
                                          const at::Tensor& x, const ops::Documents& documents,
                                          ops::Purpose purpose = ops::Purpose::kOutput);

/// short_conv_block() for the newest tokens x [T, hidden] of some sequences, with a result of the same shape; replaces
/// the windows in `cache` by those after these tokens. Records no graph.
[[nodiscard]] at::Tensor cached_short_conv_block(const ModelConfig& config,
                                                 const ShortConvParameters& parameters, const at::Tensor& x,
                                                 std::span<const SequencePart> parts, ShortConvCache& cache);

}  // namespace sluice
