#include "decoder/attention_block.hpp"

#include "base/error.hpp"
#include "decoder/biased.hpp"
#include "decoder/block_norm.hpp"
#include "decoder/output_gate.hpp"
#include "decoder/rotary_tables.hpp"
#include "model/blocks/attention.hpp"
#include "ops/cached_attention.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <cmath>

namespace sluice {
namespace {

/// Queries or keys x [b, L, heads, head_dim], normalised by the model's norm.
at::Tensor normalised(const ModelConfig& config, const at::Tensor& x, const ops::Parameter& weight) {
  if (config.query_key_norm == QueryKeyNorm::kNone) return x;
  if (config.query_key_norm == QueryKeyNorm::kPerHead) return block_norm(config, x, weight);
  return block_norm(config, x.flatten(2), weight).view(x.sizes());
}

/// Queries or keys, normalised and turned in the model's order.
at::Tensor placed(const ModelConfig& config, const at::Tensor& x, const ops::Parameter& weight,
                  const ops::RotaryTable& rotary) {
  return config.norms_behind_rotation ? normalised(config, turned(x, rotary), weight)
                                      : turned(normalised(config, x, weight), rotary);
}

ops::AttentionForm form_of(const ModelConfig& config, const AttentionParameters& parameters) {
  return {config.score_factor.value_or(1 / std::sqrt(static_cast<double>(config.head_dim))),
          parameters.window, parameters.sinks};
}

/// Queries, keys, values and gates of tokens: [b, L, heads, head_dim], of values and gates with the size of values'
/// heads, of gates perhaps [b, L, heads, 1]; no gate where the model has none.
struct Heads {
  at::Tensor queries, keys, values, gate;
};

/// Queries, keys and values of x [b, L, hidden].
Heads project(const ModelConfig& config, const AttentionParameters& parameters,
              const ops::RotaryTable& rotary, const at::Tensor& x) {
  const at::Tensor tokens = x.reshape({-1, config.hidden_size});
  const auto project = [&](const ops::Weight& weight, const ops::Parameter& bias, std::int64_t heads) {
    return biased(ops::linear(tokens, weight), bias, tokens).view({x.size(0), x.size(1), heads, -1});
  };
  const at::Tensor projected = project(parameters.q_proj, parameters.q_bias, config.attention_heads);
  const bool joint = config.attention_output_gate && !config.separate_gate;
  const at::Tensor queries =
      placed(config, joint ? projected.narrow(3, 0, config.head_dim) : projected, parameters.q_norm, rotary);
  const at::Tensor projected_keys = project(parameters.k_proj, parameters.k_bias, config.key_value_heads);
  const at::Tensor keys = placed(config, projected_keys, parameters.k_norm, rotary);
  at::Tensor values = config.values_are_keys
                          ? projected_keys
                          : project(parameters.v_proj, parameters.v_bias, config.key_value_heads);
  if (config.value_norm) values = block_norm(config, values, parameters.v_norm);
  if (config.value_factor != 1) values = values * config.value_factor;
  at::Tensor gate;
  if (joint) gate = projected.narrow(3, config.head_dim, config.head_dim);
  if (config.separate_gate) gate = project(parameters.gate_proj, {}, config.attention_heads);
  return {queries, keys, values, gate};
}

/// Output of the block [b * L, hidden] for `mixed`, the attention's result for these heads.
at::Tensor output(const ModelConfig& config, const AttentionParameters& parameters, const Heads& heads,
                  const at::Tensor& mixed, ops::Purpose purpose) {
  const at::Tensor rows =
      gated(config, mixed, heads.gate).reshape({-1, config.attention_heads * config.value_head_dim()});
  return biased(ops::linear(rows, parameters.o_proj, purpose), parameters.o_bias, rows);
}

}  // namespace

AttentionParameters attention_parameters(const ModelConfig& config, const LayerViews& layer,
                                         std::int64_t window) {
  namespace names = blocks::attention;
  AttentionParameters out{.q_proj = layer.weight(names::kQProj),
                          .k_proj = layer.weight(names::kKProj),
                          .v_proj = config.values_are_keys ? ops::Weight{} : layer.weight(names::kVProj),
                          .o_proj = layer.weight(names::kOProj),
                          .window = window};
  if (config.attention_bias) {
    out.q_bias = layer[names::kQBias];
    out.k_bias = layer[names::kKBias];
    if (!config.values_are_keys) out.v_bias = layer[names::kVBias];
  }
  if (config.separate_gate) out.gate_proj = layer.weight(names::kGateProj);
  if (config.attention_output_bias) out.o_bias = layer[names::kOBias];
  if (config.attention_sinks) out.sinks = layer[names::kSinks];
  if (config.query_key_norm == QueryKeyNorm::kNone) {
    SLUICE_ASSERT(!config.value_norm, "a norm of values needs norms of queries and keys");
    return out;
  }
  out.q_norm = layer[names::kQNorm];
  out.k_norm = layer[names::kKNorm];
  if (config.value_norm) out.v_norm.value = at::ones({config.value_head_dim()}, out.k_norm.value.options());
  return out;
}

at::Tensor attention_block(const ModelConfig& config, const AttentionParameters& parameters,
                           const ops::RotaryTable& rotary, const at::Tensor& x,
                           const ops::Documents& documents, ops::AttentionRecord& record,
                           ops::Purpose purpose) {
  const Heads heads = project(config, parameters, rotary, x);
  const at::Tensor mixed = ops::attention(heads.queries, heads.keys, heads.values,
                                          form_of(config, parameters), documents, &record);
  return output(config, parameters, heads, mixed, purpose).view({x.size(0), x.size(1), config.hidden_size});
}

at::Tensor cached_attention_block(const ModelConfig& config, const AttentionParameters& parameters,
                                  const ops::RotaryTable& rotary, const at::Tensor& x,
                                  std::span<const SequencePart> parts, AttentionCache& cache) {
  const Heads heads = project(config, parameters, rotary, x.unsqueeze(0));
  const ops::AttentionForm form = form_of(config, parameters);
  at::Tensor mixed = at::empty({1, x.size(0), config.attention_heads, config.value_head_dim()}, x.options());
  std::int64_t row = 0;
  for (const SequencePart& part : parts) {
    const auto of_part = [&](const at::Tensor& tokens) { return tokens[0].narrow(0, row, part.tokens); };
    const auto in_cache = [&](const at::Tensor& all, std::int64_t begin) {
      return all[part.slot].narrow(0, begin, part.end() - begin);
    };
    in_cache(cache.keys, part.begin).copy_(of_part(heads.keys));
    in_cache(cache.values, part.begin).copy_(of_part(heads.values));
    of_part(mixed).copy_(ops::cached_attention(of_part(heads.queries), in_cache(cache.keys, 0),
                                               in_cache(cache.values, 0), form));
    row += part.tokens;
  }
  return output(config, parameters, heads, mixed, ops::Purpose::kOutput);
}

}  // namespace sluice
