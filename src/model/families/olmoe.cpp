#include "model/families/olmoe.hpp"

#include "model/common_config.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {

ModelConfig read_olmoe_config(const ConfigReader& config) {
  ModelConfig model =
      read_common_config(config, {.null_key_value_heads = true, .padding_token = 1, .rms_norm_eps = 1e-5});
  if (config.has("clip_qkv")) config.refuse("clip_qkv", "null: queries, keys and values are not clipped");
  // OLMoE's norms are hidden_size wide, so the heads together must be too.
  if (model.attention_heads * model.head_dim != model.hidden_size)
    config.refuse(config.has("head_dim") ? "head_dim" : "num_attention_heads",
                  fmt::format("heads that together are hidden_size = {} wide", model.hidden_size));
  model.query_key_norm = QueryKeyNorm::kWholeProjection;
  read_expert_config(config, "intermediate_size", model);
  model.router.normalize = config.boolean({"norm_topk_prob"}, false);
  std::ranges::fill(model.layers, MlpKind::kMoe);
  return model;
}

}  // namespace sluice
