#include "model/blocks/latent_attention.hpp"

#include "base/dtype.hpp"
#include "model/blocks/attention.hpp"
#include "model/blocks/norms.hpp"

#include <fmt/format.h>

#include <utility>

namespace sluice::blocks::latent_attention {
namespace {

void add_biased(const ModelConfig& config, std::string_view weight, std::string_view bias,
                std::vector<std::int64_t> shape, std::vector<BlockTensor>& out) {
  const std::int64_t width = shape.front();
  out.push_back({weight, std::move(shape), Role::kAttention});
  if (config.attention_bias) out.push_back({bias, {width}, Role::kAttention, InitialValues::kZeros});
}

}  // namespace

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  const LatentAttentionConfig& latent = config.latent_attention;
  const std::int64_t heads = config.attention_heads, hidden = config.hidden_size;
  std::vector<BlockTensor> out;
  if (latent.query_rank == 0) {
    out.push_back({kQProj, {heads * latent.key_dim(), hidden}, Role::kAttention});
  } else {
    add_biased(config, kQAProj, kQABias, {latent.query_rank, hidden}, out);
    out.push_back(norms::weight(config, kQANorm, latent.query_rank));
    out.push_back({kQBProj, {heads * latent.key_dim(), latent.query_rank}, Role::kAttention});
  }
  add_biased(config, kKvAProj, kKvABias, {latent.rank + latent.rope_dim, hidden}, out);
  out.push_back(norms::weight(config, kKvANorm, latent.rank));
  out.push_back({kKvBProj, {heads * (latent.nope_dim + latent.value_dim), latent.rank}, Role::kAttention});
  add_biased(config, kOProj, kOBias, {hidden, heads * latent.value_dim}, out);
  if (config.separate_gate)
    out.push_back({kGateProj, {attention::gate_values(config, latent.value_dim), hidden}, Role::kAttention});
  return out;
}

std::vector<Setting> settings(const ModelConfig& config) {
  const LatentAttentionConfig& latent = config.latent_attention;
  if (latent.rank == 0) return {};
  return {{"qk_nope_head_dim", fmt::to_string(latent.nope_dim)},
          {"qk_rope_head_dim", fmt::to_string(latent.rope_dim)},
          {"v_head_dim", fmt::to_string(latent.value_dim)},
          {"factor of attention scores", fmt::format("{}", latent.score_factor)}};
}

BlockActivations activations(const ModelConfig& config, const PassSize& pass) {
  const LatentAttentionConfig& latent = config.latent_attention;
  const std::int64_t heads = config.attention_heads, width = heads * latent.padded_dim();
  const std::int64_t low = 2 * (latent.query_rank + latent.rank) + latent.rope_dim;
  const std::int64_t expanded = heads * (2 * latent.key_dim() + latent.nope_dim + latent.value_dim);
  // Counts queries, keys and values of each head at their common width, in addition to the parts that they
  // are made of.
  BlockActivations out = attention::activations(config, pass);
  const std::int64_t gate = attention::kept_of_gate(config, latent.value_dim, pass);
  out.kept = config.hidden_size + low + expanded + 4 * width + gate + 2 * heads;
  out.passed = low + expanded + 4 * width + gate + (config.attention_bias ? config.hidden_size : 0);
  return out;
}

BlockCache cache(const ModelConfig& config, std::int64_t element_bytes) {
  const LatentAttentionConfig& latent = config.latent_attention;
  return {.position_bytes = (latent.rank + latent.rope_dim) * element_bytes};
}

}  // namespace sluice::blocks::latent_attention
