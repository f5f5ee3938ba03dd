// Causal self-attention: grouped queries, rotary positions, and if the model has them biases, query and key
// norms, sinks, windows and an output gate.
#pragma once

#include "decoder/parameter_views.hpp"
#include "decoder/sequence_cache.hpp"
#include "model/model_config.hpp"
#include "ops/attention.hpp"
#include "ops/linear.hpp"
#include "ops/parameter.hpp"
#include "ops/rotary.hpp"

#include <cstdint>
#include <span>

namespace sluice {

/// Weights of one layer's attention; shapes as in the manifest.
struct AttentionParameters {
  /// Query projection [heads x head_dim, hidden]; with a gate but no gate_proj, of each head query rows, then gate
  /// rows.
  ops::Weight q_proj;
  ops::Weight k_proj;  ///< key projection [key heads x head_dim, hidden]
  /// Value projection [key heads x size of values, hidden]; undefined where values are what k_proj makes.
  ops::Weight v_proj;
  /// Projection of the gate [heads x size of values, hidden] or [heads, hidden], if it has one of its own.
  ops::Weight gate_proj{};
  ops::Weight o_proj;  ///< output projection [hidden, heads x size of values]
  /// Biases that these projections add to a token; undefined for none.
  ops::Parameter q_bias{}, k_bias{}, v_bias{}, o_bias{};
  /// Weights of the norms of queries and keys, see QueryKeyNorm; undefined for none.
  ops::Parameter q_norm{}, k_norm{};
  /// Ones [size of values] for the norm of values, which has no weight; undefined for none.
  ops::Parameter v_norm{};
  ops::Parameter sinks{};   ///< logit of each head's attention sink [heads]; undefined for none
  std::int64_t window = 0;  ///< tokens that a token attends to, itself included; 0: all before it
};

/// Weights of a layer with attention, whose window is `window` tokens.
[[nodiscard]] AttentionParameters attention_parameters(const ModelConfig& config, const LayerViews& layer,
                                                       std::int64_t window = 0);

/// Attention of x [b, L, hidden], with a result of the same shape; tokens attend to themselves and to earlier
/// tokens of their document. An undefined table of `rotary` rotates nothing. `record` as in ops::attention(). In
/// a pass for the graph alone the result is zeros.
[[nodiscard]] at::Tensor attention_block(const ModelConfig& config, const AttentionParameters& parameters,
                                         const ops::RotaryTable& rotary, const at::Tensor& x,
                                         const ops::Documents& documents, ops::AttentionRecord& record,
                                         ops::Purpose purpose = ops::Purpose::kOutput);

/// attention_block() for the newest tokens x [T, hidden] of some sequences, with a result of the same shape.
/// Their keys and values are added to `cache`, which has those of earlier tokens. `rotary` has a row for each
/// token. Records no graph.
[[nodiscard]] at::Tensor cached_attention_block(const ModelConfig& config,
                                                const AttentionParameters& parameters,
                                                const ops::RotaryTable& rotary, const at::Tensor& x,
                                                std::span<const SequencePart> parts, AttentionCache& cache);

}  // namespace sluice
