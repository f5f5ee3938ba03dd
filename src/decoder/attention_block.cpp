#include "decoder/attention_block.hpp"

#include "decoder/block_norm.hpp"
#include "model/blocks/attention.hpp"

#include <ATen/ops/sigmoid.h>

#include <cmath>

namespace sluice {
namespace {

/// Queries or keys x [b, L, heads, head_dim] after the model's norm.
at::Tensor normalised(const ModelConfig& config, const at::Tensor& x, const ops::Parameter& weight) {
  if (config.query_key_norm == QueryKeyNorm::kNone) return x;
  if (config.query_key_norm == QueryKeyNorm::kPerHead) return block_norm(config, x, weight);
  return block_norm(config, x.flatten(2), weight).view(x.sizes());
}

}  // namespace

AttentionParameters attention_parameters(const ModelConfig& config, const LayerViews& layer) {
  namespace names = blocks::attention;
  AttentionParameters out{.q_proj = layer[names::kQProj],
                          .k_proj = layer[names::kKProj],
                          .v_proj = layer[names::kVProj],
                          .o_proj = layer[names::kOProj]};
  if (config.query_key_norm == QueryKeyNorm::kNone) return out;
  out.q_norm = layer[names::kQNorm];
  out.k_norm = layer[names::kKNorm];
  return out;
}

at::Tensor attention_block(const ModelConfig& config, const AttentionParameters& parameters,
                           const ops::RotaryTable& rotary, const at::Tensor& x,
                           const ops::Documents& documents, ops::AttentionRecord& record,
                           ops::Purpose purpose) {
  const std::int64_t sequences = x.size(0);
  const std::int64_t length = x.size(1);
  const at::Tensor tokens = x.reshape({sequences * length, config.hidden_size});
  const auto project = [&](const ops::Parameter& weight, std::int64_t heads) {
    return ops::linear(tokens, weight).view({sequences, length, heads, -1});
  };
  const at::Tensor projected = project(parameters.q_proj, config.attention_heads);
  const bool gated = config.attention_output_gate;
  const at::Tensor queries =
      normalised(config, gated ? projected.narrow(3, 0, config.head_dim) : projected, parameters.q_norm);
  const at::Tensor keys =
      normalised(config, project(parameters.k_proj, config.key_value_heads), parameters.k_norm);
  const at::Tensor values = project(parameters.v_proj, config.key_value_heads);
  const double scale = 1 / std::sqrt(static_cast<double>(config.head_dim));
  at::Tensor mixed = ops::attention(ops::apply_rotary(queries, rotary), ops::apply_rotary(keys, rotary),
                                    values, scale, documents, &record);
  if (gated) mixed = mixed * at::sigmoid(projected.narrow(3, config.head_dim, config.head_dim));
  return ops::linear(mixed.reshape({sequences * length, config.attention_heads * config.head_dim}),
                     parameters.o_proj, purpose)
      .view({sequences, length, config.hidden_size});
}

}  // namespace sluice
