#include "model/latent_config.hpp"

#include "model/rotary_config.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {

ModelConfig read_latent_config(const ConfigReader& config, CommonDefaults defaults) {
  LatentAttentionConfig latent;
  latent.rank = config.integer({"kv_lora_rank"});
  latent.nope_dim = config.integer({"qk_nope_head_dim"});
  latent.rope_dim = config.integer({"qk_rope_head_dim"});
  latent.value_dim = config.integer({"v_head_dim"});
  latent.query_rank = config.is_null("q_lora_rank") ? 0 : config.integer({"q_lora_rank"});
  latent.score_factor = read_score_factor(config, defaults.rope_parameters);
  // Most families with latent attention call this size head_dim.
  if (!defaults.head_dim) defaults.head_dim = latent.rope_dim;
  defaults.takes_attention_bias = true;
  ModelConfig model = read_common_config(config, defaults);
  if (model.head_dim != *defaults.head_dim) config.refuse("head_dim", fmt::to_string(*defaults.head_dim));
  if (model.rotary.dim != latent.rope_dim)
    config.refuse("partial_rotary_factor", fmt::format("what makes qk_rope_head_dim = {} of head_dim = {}",
                                                       latent.rope_dim, model.head_dim));
  if (model.key_value_heads != model.attention_heads)
    config.refuse("num_key_value_heads", fmt::format("num_attention_heads = {}", model.attention_heads));
  model.head_dim = latent.padded_dim();
  model.latent_attention = latent;
  model.rotary.interleaved = config.boolean({"rope_interleave"}, true);
  std::ranges::fill(model.attention, AttentionKind::kLatent);
  return model;
}

}  // namespace sluice
