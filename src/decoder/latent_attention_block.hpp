// Multi-head latent attention (causal) of DeepSeek-V2, V3 and related models.
#pragma once

#include "decoder/parameter_views.hpp"
#include "decoder/sequence_cache.hpp"
#include "model/model_config.hpp"
#include "ops/attention.hpp"
#include "ops/linear.hpp"
#include "ops/parameter.hpp"
#include "ops/rotary.hpp"

#include <span>

namespace sluice {

/// Weights of one layer's latent attention; shapes as in the manifest.
struct LatentAttentionParameters {
  /// Query projection of a model without a query rank, used in place of the two below.
  ops::Weight q_proj{};
  /// Query projections [query rank, hidden] and [heads x (nope + rope), query rank].
  ops::Weight q_a_proj{}, q_b_proj{};
  ops::Parameter q_a_norm{};   ///< norm of the query latent [query rank]
  ops::Weight kv_a_proj{};     ///< projection to latent and rotary key [rank + rope, hidden]
  ops::Parameter kv_a_norm{};  ///< norm of the key and value latent [rank]
  ops::Weight kv_b_proj{};     ///< projection to keys and values [heads x (nope + value), rank]
  ops::Weight o_proj{};        ///< output projection [hidden, heads x value]
  ops::Weight gate_proj{};     ///< projection of the output's gate, if any [heads or heads x value, hidden]
  ops::Parameter q_a_bias{}, kv_a_bias{}, o_bias{};  ///< biases of these projections; undefined for none
};

/// The weights of a layer with latent attention.
[[nodiscard]] LatentAttentionParameters latent_attention_parameters(const ModelConfig& config,
                                                                    const LayerViews& layer);

/// attention_block() with latent attention: projects keys and values of every head.
[[nodiscard]] at::Tensor latent_attention_block(const ModelConfig& config,
                                                const LatentAttentionParameters& parameters,
                                                const ops::RotaryTable& rotary, const at::Tensor& x,
                                                const ops::Documents& documents, ops::AttentionRecord& record,
                                                ops::Purpose purpose = ops::Purpose::kOutput);

/// cached_attention_block() over the latent vectors that `cache` holds of each token. Queries are taken to
/// the latent space, where all heads attend to the same rows, so that no keys or values are projected (the
/// absorbed form of DeepSeek-V2's section 2.1).
[[nodiscard]] at::Tensor cached_latent_attention_block(const ModelConfig& config,
                                                       const LatentAttentionParameters& parameters,
                                                       const ops::RotaryTable& rotary, const at::Tensor& x,
                                                       std::span<const SequencePart> parts,
                                                       LatentCache& cache);

}  // namespace sluice
