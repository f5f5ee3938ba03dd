// Reads the keys of multi-head latent attention, which several families share.
#pragma once

#include "model/common_config.hpp"

namespace sluice {

/// read_common_config() for a decoder whose layers all have latent attention: ranks, parts of a head, the
/// rotary layout, and the factor of attention scores that YaRN's mscale_all_dim stands for (yarn_apply_mscale
/// of transformers). Error(kBadData) for a number of key heads other than that of attention heads, for a
/// head_dim other than the default (qk_rope_head_dim where `defaults` has none), and where another number of
/// entries turns than qk_rope_head_dim.
[[nodiscard]] ModelConfig read_latent_config(const ConfigReader& config, CommonDefaults defaults);

}  // namespace sluice
