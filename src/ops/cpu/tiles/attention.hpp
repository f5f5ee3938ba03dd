// Causal attention in bfloat16, block by block of tiles: scores pass from one product through vector
// registers into the tiles of the next, and are never written to memory beyond a core's own caches. Internal
// to src/ops.
#pragma once

#include "ops/cpu/tiles/heads.hpp"

#include <span>

namespace sluice::ops::cpu {

/// Attention of one key head and its queries: `out` = softmax(scale * q k^T) v, laid out as q, and logsumexp.
struct TileAttention {
  tiles::Heads heads;
  std::uint16_t* out;
  std::int64_t first_query = 0;  ///< First query; earlier ones may be left out.
};

/// Computes attention of heads that differ in their data and documents only. Shares them among all threads,
/// with the same results for any number of threads. Requires has_tiles().
void tile_attention(std::span<const TileAttention> all);

/// Inputs and outputs of the backward pass, which needs `out` and logsumexp; gradients are laid out as q, k
/// and v.
struct TileGradients {
  tiles::Heads heads;
  const std::uint16_t *out, *d_out;
  std::uint16_t *q, *k, *v;
};

/// Computes the gradients of tile_attention(), with the same requirements.
void tile_attention_gradients(std::span<const TileGradients> all);

}  // namespace sluice::ops::cpu
