// Mamba-2, as Granite 4 and Nemotron-H have it.
#pragma once

#include "decoder/parameter_views.hpp"
#include "decoder/sequence_cache.hpp"
#include "model/model_config.hpp"
#include "ops/documents.hpp"
#include "ops/linear.hpp"

#include <span>

namespace sluice {

/// Weights of one layer's Mamba-2; shapes as in the manifest.
struct Mamba2Parameters {
  ops::Weight in_proj;  ///< projection to the gate, to what the convolution mixes, and to time steps
  ops::Parameter conv1d, conv_bias;  ///< filters of the causal convolution, and its bias, undefined for none
  ops::Parameter dt_bias, a_log, skip;  ///< bias of time steps, logarithm of the decay rate, and D [heads]
  ops::Parameter norm;                  ///< weight of the norm of the gated output [heads x head size]
  ops::Weight out_proj;                 ///< output projection [hidden, heads x head size]
};

/// Weights of a layer with Mamba-2.
[[nodiscard]] Mamba2Parameters mamba2_parameters(const ModelConfig& config, const LayerViews& layer);

/// Mamba-2 of x [b, L, hidden], with a result of the same shape; a token sees itself and earlier tokens of its
/// document. In a pass for the graph alone the result is zeros.
[[nodiscard]] at::Tensor mamba2_block(const ModelConfig& config, const Mamba2Parameters& parameters,
                                      const at::Tensor& x, const ops::Documents& documents,
                                      ops::Purpose purpose = ops::Purpose::kOutput);

/// mamba2_block() for the newest tokens x [T, hidden] of some sequences, with a result of the same shape;
/// replaces the states in `cache` by the states after these tokens. Records no graph.
[[nodiscard]] at::Tensor cached_mamba2_block(const ModelConfig& config, const Mamba2Parameters& parameters,
                                             const at::Tensor& x, std::span<const SequencePart> parts,
                                             DeltaNetCache& cache);

}  // namespace sluice
