#include "model/latent_config.hpp"

#include "model/rotary_config.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {
namespace {

void require_rotated_part(const ConfigReader& config, std::int64_t head_dim, std::int64_t rope_dim,
                          const ModelConfig& model) {
  if (model.head_dim != head_dim) config.refuse("head_dim", fmt::to_string(head_dim));
  if (model.rotary.dim != rope_dim)
    config.refuse("partial_rotary_factor",
                  fmt::format("what makes qk_rope_head_dim = {} of head_dim = {}", rope_dim, model.head_dim));
}

}  // namespace

ModelConfig read_latent_config(const ConfigReader& config, CommonDefaults defaults, const LatentForm& form) {
  LatentAttentionConfig latent;
  latent.rank = config.integer({"kv_lora_rank"});
  latent.nope_dim = config.integer({"qk_nope_head_dim"});
  latent.rope_dim = config.integer({"qk_rope_head_dim"});
  latent.value_dim = config.integer({"v_head_dim"});
  constexpr const char* kQueryRank = "q_lora_rank";
  const bool is_left_out = form.query_rank_may_be_left_out && !config.has(kQueryRank);
  latent.query_rank = config.is_null(kQueryRank) || is_left_out ? 0 : config.integer({kQueryRank});
  if (form.rotates) latent.score_factor = read_score_factor(config, defaults.rope_parameters);
  // Most families with latent attention call this size head_dim.
  if (!defaults.head_dim) defaults.head_dim = latent.rope_dim;
  defaults.takes_attention_bias = true;
  defaults.rotary_by_kind = !form.rotates;  // no kind rotates
  ModelConfig model = read_common_config(config, defaults);
  if (form.rotates) require_rotated_part(config, *defaults.head_dim, latent.rope_dim, model);
  if (model.key_value_heads != model.attention_heads)
    config.refuse("num_key_value_heads", fmt::format("num_attention_heads = {}", model.attention_heads));
  model.head_dim = latent.padded_dim();
  model.latent_attention = latent;
  if (form.rotates) model.rotary.interleaved = config.boolean({"rope_interleave"}, true);
  std::ranges::fill(model.attention, AttentionKind::kLatent);
  return model;
}

}  // namespace sluice
