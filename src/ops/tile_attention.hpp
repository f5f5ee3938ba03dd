// Causal attention of bfloat16, block by block of tiles: scores go from one product through vector registers
// into the tiles of the next, and never to memory beyond a core's own caches.
// Internal to src/ops.
#pragma once

#include "ops/tile_heads.hpp"

namespace sluice::ops {

/// out = softmax(scale * q k^T) v, laid out as q; writes log_sums. Requires has_tiles().
void tile_attention(const tiles::Heads& heads, std::uint16_t* out);

/// Gradients, laid out as q, k and v.
struct TileGradients {
  const std::uint16_t *out, *d_out;
  std::uint16_t *q, *k, *v;
};

/// The gradients of tile_attention(), from its out and log_sums. Requires has_tiles().
void tile_attention_gradients(const tiles::Heads& heads, const TileGradients& d);

}  // namespace sluice::ops
