// Linear attention of Qwen3-Next and Qwen3.5: a gated delta net.
#pragma once

#include "decoder/parameter_views.hpp"
#include "decoder/sequence_cache.hpp"
#include "model/model_config.hpp"
#include "ops/documents.hpp"
#include "ops/linear.hpp"
#include "ops/parameter.hpp"

#include <span>

namespace sluice {

/// Weights of one layer's delta net; shapes as in the manifest. `keys` below is key heads x key head size,
/// `values` is value heads x value head size.
struct DeltaNetParameters {
  ops::Weight in_proj_qkv;           ///< projection to queries, keys and values [2 keys + values, hidden]
  ops::Weight in_proj_z;             ///< projection to the output gate z [values, hidden]
  ops::Weight in_proj_b, in_proj_a;  ///< projections to write strength b and decay a [value heads, hidden]
  ops::Parameter conv1d;             ///< filters of the causal convolution [2 keys + values, 1, taps]
  ops::Parameter dt_bias, a_log;     ///< bias and logarithm of the decay rate [value heads]
  ops::Parameter norm;               ///< weight of the norm of each head's output [value head size]
  ops::Weight out_proj;              ///< output projection [hidden, values]
};

/// What tokens are projected to before the convolution and the delta rule, each [b, L, ...].
struct DeltaProjections {
  at::Tensor mixed;  ///< queries, keys and values before the convolution [b, L, 2 keys + values]
  at::Tensor
      log_decay;    ///< logarithms of decays of the state, in the shape of ops::DeltaRuleInputs::log_decay
  at::Tensor beta;  ///< shares of old values that are replaced [b, L, value heads]
};

/// Result [b, L, value heads, value head size] of the convolution and the delta rule.
[[nodiscard]] at::Tensor delta_values(const LinearAttentionConfig& linear, const DeltaProjections& in,
                                      const ops::Parameter& conv1d, const ops::Documents& documents);

/// delta_values() of sequences that are continued from `window`, the convolution's last inputs, and `state`, which
/// become those after these tokens. Records no graph.
[[nodiscard]] at::Tensor continued_delta_values(const LinearAttentionConfig& linear,
                                                const DeltaProjections& in, const ops::Parameter& conv1d,
                                                at::Tensor& window, at::Tensor& state);

/// Weights of a layer with a delta net.
[[nodiscard]] DeltaNetParameters delta_net_parameters(const LayerViews& layer);

/// Delta net of x [b, L, hidden], with a result of the same shape; a token sees itself and earlier tokens of
/// its document. In a pass for the graph alone the result is zeros.
[[nodiscard]] at::Tensor delta_net_block(const ModelConfig& config, const DeltaNetParameters& parameters,
                                         const at::Tensor& x, const ops::Documents& documents,
                                         ops::Purpose purpose = ops::Purpose::kOutput);

/// delta_net_block() for the newest tokens x [T, hidden] of some sequences, with a result of the same shape;
/// replaces the states in `cache` by the states after these tokens. Records no graph.
[[nodiscard]] at::Tensor cached_delta_net_block(const ModelConfig& config,
                                                const DeltaNetParameters& parameters, const at::Tensor& x,
                                                std::span<const SequencePart> parts, DeltaNetCache& cache);

}  // namespace sluice
