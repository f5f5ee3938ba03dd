#include "decoder/latent_attention_block.hpp"

#include "decoder/biased.hpp"
#include "decoder/block_norm.hpp"
#include "decoder/output_gate.hpp"
#include "decoder/rotary_tables.hpp"
#include "model/blocks/latent_attention.hpp"
#include "ops/cached_attention.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>

#include <cmath>

namespace sluice {
namespace {

at::Tensor inner_norm(const ModelConfig& config, const at::Tensor& x, const ops::Parameter& weight) {
  return ops::row_norm(x, weight, blocks::latent_attention::kNormEpsilon, norm_kind(config));
}

ops::AttentionForm form_of(const LatentAttentionConfig& latent) {
  return {latent.score_factor / std::sqrt(static_cast<double>(latent.key_dim()))};
}

/// Latent queries and keys of tokens x [b, L, hidden]; rotary entries have been rotated, if the model rotates any.
struct Latents {
  /// Parts of the queries without and with rotary positions: [b, L, heads, nope] and [b, L, heads, rope].
  at::Tensor nope, rope;
  at::Tensor shared;  ///< latent vector [b L, rank] that keys and values are projected from
  at::Tensor key;     ///< rotary part of the keys [b, L, 1, rope], which all heads share
  at::Tensor gate;    ///< projection of the output's gate [b, L, heads, 1 or value]; undefined for none
};

at::Tensor queries_of(const ModelConfig& config, const LatentAttentionParameters& parameters,
                      const at::Tensor& tokens) {
  if (config.latent_attention.query_rank == 0) return ops::linear(tokens, parameters.q_proj);
  const at::Tensor low = biased(ops::linear(tokens, parameters.q_a_proj), parameters.q_a_bias, tokens);
  return ops::linear(inner_norm(config, low, parameters.q_a_norm), parameters.q_b_proj);
}

Latents project(const ModelConfig& config, const LatentAttentionParameters& parameters,
                const ops::RotaryTable& rotary, const at::Tensor& x) {
  const LatentAttentionConfig& latent = config.latent_attention;
  const at::Tensor tokens = x.reshape({-1, config.hidden_size});
  const at::Tensor queries = queries_of(config, parameters, tokens)
                                 .view({x.size(0), x.size(1), config.attention_heads, latent.key_dim()});
  const at::Tensor low = biased(ops::linear(tokens, parameters.kv_a_proj), parameters.kv_a_bias, tokens);
  const at::Tensor key =
      low.narrow(1, latent.rank, latent.rope_dim).reshape({x.size(0), x.size(1), 1, latent.rope_dim});
  at::Tensor gate;
  if (config.separate_gate)
    gate = ops::linear(tokens, parameters.gate_proj).view({x.size(0), x.size(1), config.attention_heads, -1});
  return {queries.narrow(3, 0, latent.nope_dim),
          turned(queries.narrow(3, latent.nope_dim, latent.rope_dim).contiguous(), rotary),
          inner_norm(config, low.narrow(1, 0, latent.rank).contiguous(), parameters.kv_a_norm),
          turned(key, rotary), gate};
}

/// Output of the block [b L, hidden] for `mixed` [b, L, heads, value], the attention's result for these tokens.
at::Tensor output(const ModelConfig& config, const LatentAttentionParameters& parameters,
                  const Latents& tokens, const at::Tensor& mixed, ops::Purpose purpose) {
  const at::Tensor rows = gated(config, mixed, tokens.gate)
                              .reshape({-1, config.attention_heads * config.latent_attention.value_dim});
  return biased(ops::linear(rows, parameters.o_proj, purpose), parameters.o_bias, rows);
}

/// Values of a weight with its adapter merged in; no graph.
at::Tensor merged(const ops::Weight& weight) {
  at::Tensor base = ops::matrix_of(weight.base);
  if (!weight.lora) return base;
  return base + at::matmul(weight.lora->b.value, weight.lora->a.value) * weight.lora->scale;
}

}  // namespace

LatentAttentionParameters latent_attention_parameters(const ModelConfig& config, const LayerViews& layer) {
  namespace names = blocks::latent_attention;
  LatentAttentionParameters out{.kv_a_proj = layer.weight(names::kKvAProj),
                                .kv_a_norm = layer[names::kKvANorm],
                                .kv_b_proj = layer.weight(names::kKvBProj),
                                .o_proj = layer.weight(names::kOProj)};
  if (config.separate_gate) out.gate_proj = layer.weight(names::kGateProj);
  const bool has_rank = config.latent_attention.query_rank > 0;
  if (has_rank) {
    out.q_a_proj = layer.weight(names::kQAProj);
    out.q_a_norm = layer[names::kQANorm];
    out.q_b_proj = layer.weight(names::kQBProj);
  } else {
    out.q_proj = layer.weight(names::kQProj);
  }
  if (!config.attention_bias) return out;
  if (has_rank) out.q_a_bias = layer[names::kQABias];
  out.kv_a_bias = layer[names::kKvABias];
  out.o_bias = layer[names::kOBias];
  return out;
}

at::Tensor latent_attention_block(const ModelConfig& config, const LatentAttentionParameters& parameters,
                                  const ops::RotaryTable& rotary, const at::Tensor& x,
                                  const ops::Documents& documents, ops::AttentionRecord& record,
                                  ops::Purpose purpose) {
  const LatentAttentionConfig& latent = config.latent_attention;
  const std::int64_t heads = config.attention_heads;
  const Latents tokens = project(config, parameters, rotary, x);
  const at::Tensor expanded = ops::linear(tokens.shared, parameters.kv_b_proj)
                                  .view({x.size(0), x.size(1), heads, latent.nope_dim + latent.value_dim});
  const at::Tensor queries = at::cat({tokens.nope, tokens.rope}, 3);
  const at::Tensor keys =
      at::cat({expanded.narrow(3, 0, latent.nope_dim), tokens.key.expand({-1, -1, heads, -1})}, 3);
  const at::Tensor values = expanded.narrow(3, latent.nope_dim, latent.value_dim).contiguous();
  const at::Tensor mixed = ops::attention(queries, keys, values, form_of(latent), documents, &record);
  return output(config, parameters, tokens, mixed, purpose).view({x.size(0), x.size(1), config.hidden_size});
}

at::Tensor cached_latent_attention_block(const ModelConfig& config,
                                         const LatentAttentionParameters& parameters,
                                         const ops::RotaryTable& rotary, const at::Tensor& x,
                                         std::span<const SequencePart> parts, LatentCache& cache) {
  const LatentAttentionConfig& latent = config.latent_attention;
  const std::int64_t heads = config.attention_heads, rank = latent.rank;
  const Latents tokens = project(config, parameters, rotary, x.unsqueeze(0));
  const at::Tensor expand =
      merged(parameters.kv_b_proj).view({heads, latent.nope_dim + latent.value_dim, rank});
  // Query taken to the latent space, [T, heads, rank]: query times key of a head is this times the latent
  // vector.
  const at::Tensor absorbed =
      at::matmul(tokens.nope[0].transpose(0, 1), expand.narrow(1, 0, latent.nope_dim)).transpose(0, 1);
  const at::Tensor queries = at::cat({absorbed, tokens.rope[0]}, 2);
  const at::Tensor rows = at::cat({tokens.shared, tokens.key.view({-1, latent.rope_dim})}, 1);
  at::Tensor mixed = at::empty({x.size(0), heads, rank}, x.options());
  std::int64_t row = 0;
  for (const SequencePart& part : parts) {
    const at::Tensor known = cache.rows[part.slot];
    known.narrow(0, part.begin, part.tokens).copy_(rows.narrow(0, row, part.tokens));
    const at::Tensor all = known.narrow(0, 0, part.end()).unsqueeze(1);
    const at::Tensor seen =
        ops::cached_attention(queries.narrow(0, row, part.tokens), all, all, form_of(latent));
    mixed.narrow(0, row, part.tokens).copy_(seen.narrow(2, 0, rank));
    row += part.tokens;
  }
  const at::Tensor values =
      at::matmul(mixed.transpose(0, 1), expand.narrow(1, latent.nope_dim, latent.value_dim).transpose(1, 2));
  return output(config, parameters, tokens, values.transpose(0, 1).unsqueeze(0), ops::Purpose::kOutput);
}

}  // namespace sluice
