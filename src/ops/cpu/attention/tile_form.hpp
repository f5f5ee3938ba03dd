// Causal attention in bfloat16 on matrix tiles. Internal to src/ops.
#pragma once

#include "ops/cpu/attention/heads.hpp"

#include <cstdint>
#include <span>

namespace sluice::ops::cpu {

/// Computes attention_blocks::attend_all() with products on matrix tiles. Requires has_tiles().
void tile_attention(std::span<const attention_blocks::HeadsForward<std::uint16_t>> all);

/// Computes the gradients of tile_attention(), with the same requirements.
void tile_attention_gradients(std::span<const attention_blocks::HeadsBackward<std::uint16_t>> all);

}  // namespace sluice::ops::cpu
