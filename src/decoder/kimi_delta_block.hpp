// Kimi delta attention of Kimi Linear and Ling 3: a delta net whose state decays by channel.
#pragma once

#include "decoder/parameter_views.hpp"
#include "decoder/sequence_cache.hpp"
#include "model/model_config.hpp"
#include "ops/documents.hpp"
#include "ops/linear.hpp"
#include "ops/parameter.hpp"

#include <span>

namespace sluice {

/// A projection [width, hidden], or two by way of a low rank: `first` [rank, hidden], then `last` [width, rank].
struct KimiProjection {
  ops::Weight first{};  ///< undefined for a single projection
  ops::Weight last;
};

/// Weights of one layer's Kimi delta attention; shapes as in the manifest. `width` below is heads x head size.
struct KimiDeltaParameters {
  ops::Weight q_proj, k_proj, v_proj;  ///< projections to queries, keys and values [width, hidden]
  ops::Parameter conv1d;               ///< filters of the causal convolution [3 width, 1, taps]
  ops::Parameter dt_bias, a_log;  ///< bias of the decay [width], and logarithm of its rate, one for each head
  KimiProjection decay, gate;     ///< projections to the decay, and to the gate of the output
  ops::Weight b_proj;             ///< projection to the strength of writing [heads, hidden]
  ops::Parameter norm;            ///< weight of the norm of each head's output [head size]
  ops::Weight o_proj;             ///< output projection [hidden, width]
};

/// Weights of a layer with Kimi delta attention.
[[nodiscard]] KimiDeltaParameters kimi_delta_parameters(const ModelConfig& config, const LayerViews& layer);

/// Kimi delta attention of x [b, L, hidden], with a result of the same shape; a token sees itself and earlier tokens
/// of its document. In a pass for the graph alone the result is zeros.
[[nodiscard]] at::Tensor kimi_delta_block(const ModelConfig& config, const KimiDeltaParameters& parameters,
                                          const at::Tensor& x, const ops::Documents& documents,
                                          ops::Purpose purpose = ops::Purpose::kOutput);

/// kimi_delta_block() for the newest tokens x [T, hidden] of some sequences, with a result of the same shape;
/// replaces the states in `cache` by the states after these tokens. Records no graph.
[[nodiscard]] at::Tensor cached_kimi_delta_block(const ModelConfig& config,
                                                 const KimiDeltaParameters& parameters, const at::Tensor& x,
                                                 std::span<const SequencePart> parts, DeltaNetCache& cache);

}  // namespace sluice
