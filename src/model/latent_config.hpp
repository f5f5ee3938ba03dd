// Reads the keys of multi-head latent attention, which several families share.
#pragma once

#include "model/common_config.hpp"

namespace sluice {

/// What families with latent attention differ in.
struct LatentForm {
  bool rotates = true;                      ///< whether the last part of queries and keys is rotated
  bool query_rank_may_be_left_out = false;  ///< whether q_lora_rank may be missing, for none
};

/// Reads the config of a decoder whose layers all have latent attention, as read_common_config() does: ranks,
/// parts of a head, the rotary layout, and the factor of attention scores from YaRN's mscale_all_dim
/// (yarn_apply_mscale of transformers). Error(kBadData) if the number of key heads differs from the number of
/// attention heads, or, if it is rotated, head_dim differs from its default (qk_rope_head_dim if `defaults` has
/// none), or the rotary embedding rotates a number of entries other than qk_rope_head_dim.
[[nodiscard]] ModelConfig read_latent_config(const ConfigReader& config, CommonDefaults defaults,
                                             const LatentForm& form = {});

}  // namespace sluice
